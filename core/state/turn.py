"""The turn of a stream: carried from call to call, and answered when the choice ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from core.errors import InvalidState
from core.json import Json
from core.model import Model
from core.protocol.derender import StreamBody
from core.protocol.engine import GenerateChunk
from core.state.call import StreamCall

if TYPE_CHECKING:
    from core.turns.answered import StreamedTurn


class CarriedTurn:
    """The turn of one choice's stream; :meth:`see` every chunk of the call."""

    def __init__(self, model: Model, turn: StreamedTurn) -> None:
        self._model = model
        self._turn = turn
        self._ended = False

    def see(self, chunk: GenerateChunk) -> None:
        """Take the ids of a chunk, of which there is at most one choice."""
        from core.turns.state import output_hash  # late: only for streams that continue turns

        for choice in chunk.choices:
            output = output_hash(choice.token_ids or (), self._turn.output)
            self._turn = self._turn.model_copy(update={"output": output})
            self._ended = self._ended or choice.finish_reason is not None

    def fields(self) -> Json:
        """The state's fields."""
        return {"turn": {"state": self._turn.state.fields(), "output": self._turn.output}}

    def answer(self) -> Json:
        """What the call answers besides its chunks: the choice's ``turn_state``, once it has ended."""
        from core.turns.answered import with_output  # late: see above

        return {"turn_state": with_output(self._model, self._turn.state, self._turn.output)} if self._ended else {}


def open_turn(model: Model, body: StreamBody, call: StreamCall) -> CarriedTurn | None:
    """The turn of a call; None where nobody asked.

    Raises:
        BadRequest, SchemaError: the prompt's state is missing, or does not match.
        InvalidState: what the stream carries of it does not add up.
    """
    carried = call.state.turn if call.state is not None else None
    if carried is None and (not body.return_turn_state or call.state is not None):
        return None
    from core.turns.answered import StreamedTurn, read_state  # late: only for streams that continue turns

    if carried is None:
        return CarriedTurn(model, StreamedTurn(state=read_state(model, body.turn_state, call.prompt_token_ids)))
    try:
        return CarriedTurn(model, StreamedTurn.model_validate(carried))
    except ValidationError as exc:
        raise InvalidState("turn does not add up", "stream_state.turn") from exc
