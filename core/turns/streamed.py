"""The turn of a derendered stream: carried from call to call, and answered when the choice ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from core.errors import InvalidState
from core.json import Json
from core.model import Model
from core.turns.answered import read_state, with_output
from core.turns.state import NO_IDS, Hash, TurnState, output_hash

if TYPE_CHECKING:
    from core.protocol.engine import GenerateChunk


class Carried(BaseModel):
    """What a stream state holds of its turn: the prompt's state, and the hash of the ids so far."""

    model_config = ConfigDict(extra="forbid")

    state: TurnState
    output: Hash = NO_IDS


class StreamedTurn:
    """The turn of one choice's stream; :meth:`see` every chunk of the call."""

    def __init__(self, model: Model, carried: Carried) -> None:
        self._model = model
        self._state = carried.state
        self._output = carried.output
        self._ended = False

    def see(self, chunk: GenerateChunk) -> None:
        """Take the ids of a chunk, of which there is at most one choice."""
        for choice in chunk.choices:
            self._output = output_hash(choice.token_ids or (), self._output)
            self._ended = self._ended or choice.finish_reason is not None

    def fields(self) -> Json:
        """The stream state's fields. Changes nothing."""
        return {"turn": {"state": self._state.fields(), "output": self._output}}

    def answer(self) -> Json:
        """What the call answers besides its chunks: the choice's ``turn_state``, once it has ended."""
        return {"turn_state": with_output(self._model, self._state, self._output)} if self._ended else {}


def begin_streamed(
    model: Model, given: Mapping[str, Any] | None, prompt_token_ids: Sequence[int] | None
) -> StreamedTurn:
    """The turn of a stream before its first chunk; ``given`` is the prompt's ``turn_state``.

    Raises:
        BadRequest, SchemaError: it is missing, or does not match.
    """
    return StreamedTurn(model, Carried(state=read_state(model, given, prompt_token_ids)))


def resume_streamed(model: Model, carried: Any) -> StreamedTurn:
    """The turn that a stream state carries.

    Raises:
        InvalidState: it does not add up.
    """
    try:
        return StreamedTurn(model, Carried.model_validate(carried))
    except ValidationError as exc:
        raise InvalidState("turn does not add up", "stream_state.turn") from exc
