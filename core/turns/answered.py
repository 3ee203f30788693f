"""What derender adds to a ``turn_state``: that these were the ids that answered the prompt.

Whoever brings the state back with other ids, those of another conversation or
of another choice, is told so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.protocol.schema_error import schema_error
from core.turns.state import (
    STATE,
    InvalidTurn,
    TurnState,
    check_signature,
    ids_hash,
    output_hash,
    signed,
    turn_config,
)

_PLACE = f"body.{STATE}"


def read_state(model: Model, given: Mapping[str, Any] | None, prompt_token_ids: Sequence[int] | None) -> TurnState:
    """The ``turn_state`` of a derender call, checked.

    Raises:
        BadRequest, SchemaError, InvalidTurn: it is missing, not of its form, or not of this deployment and prompt.
    """
    if given is None:
        raise BadRequest(f"return_turn_state needs the {STATE} that render gave with the prompt", STATE)
    try:
        state = TurnState.model_validate(given)
    except ValidationError as exc:
        raise schema_error(exc, _PLACE) from exc
    check_signature(model, state, _PLACE)
    if state.config != turn_config(model):
        raise InvalidTurn("config does not match: it was made by another deployment", f"{_PLACE}.config")
    if prompt_token_ids is not None and state.ids != ids_hash(prompt_token_ids):
        raise InvalidTurn("prompt_token_ids are not those of the prompt that it was made for", "body.prompt_token_ids")
    return state


def answered(model: Model, state: TurnState, output: Sequence[int]) -> Json:
    """The state of a prompt with the ids that answered it."""
    return with_output(model, state, output_hash(output))


def with_output(model: Model, state: TurnState, output: str) -> Json:
    """The same for ids of which the hash is known."""
    return signed(model, state.model_copy(update={"output": output})).fields()
