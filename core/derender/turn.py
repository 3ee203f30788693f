"""The ``turn_state`` of each choice of a whole answer, where a call asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from core.json import Json
from core.model import Model
from core.protocol.derender import OneShotBody
from core.protocol.engine import GenerateResponse


def turn_states(
    model: Model, body: OneShotBody, source: GenerateResponse, prompt_token_ids: Sequence[int] | None
) -> list[Json]:
    """The field of each choice, in order; empty where nobody asked.

    Raises:
        BadRequest, SchemaError: the prompt's ``turn_state`` is missing, or does not match.
    """
    if not body.return_turn_state:
        return []
    from core.turns.answered import answered, read_state  # late: few callers continue turns

    state = read_state(model, body.turn_state, prompt_token_ids)
    return [{"turn_state": answered(model, state, choice.token_ids or ())} for choice in source.choices]
