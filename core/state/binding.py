"""What ties a state to its stream: the choice and the request that all its chunks belong to."""

from __future__ import annotations

from typing import NamedTuple

from core.bounds import Limits, check_chunk, check_state_ids
from core.errors import BadRequest, InvalidState
from core.protocol.openai import random_id
from core.state.call import StreamCall


class Binding(NamedTuple):
    """The choice and the request of a stream; ``choice_index`` is None until a chunk has told it."""

    choice_index: int | None
    request_id: str


def bind(call: StreamCall, limits: Limits, *, is_chat: bool) -> Binding:
    """Bound the chunks of a call, and see that all are of the state's stream and choice.

    Without an id of the engine's, one is drawn: it stays the same for the whole stream.

    Raises:
        BadRequest: names what is wrong.
    """
    state = call.state
    index = state.index if state is not None else None
    request_id = state.request_id if state is not None else None
    for chunk in call.chunks:
        if len(chunk.choices) > 1:
            where, count = ("chat", f" (got {len(chunk.choices)}).") if is_chat else ("completion", "")
            raise BadRequest(f"derender_{where}_stream expects at most one choice per chunk{count}")
        chunk_index = chunk.choices[0].index if chunk.choices else None
        _check_same(index, chunk_index, request_id or None, chunk.request_id)
        index = chunk_index if index is None else index
        request_id = request_id or chunk.request_id
        check_chunk(chunk, limits)
    if state is not None:
        check_state_ids(state)
    return Binding(index, request_id or random_id())


def _check_same(
    carried_index: int | None, index: int | None, carried_request: str | None, request_id: str | None
) -> None:
    """Refuse a chunk that belongs to another choice or stream than the state.

    Raises:
        InvalidState: names the field.
    """
    if carried_index is not None and index is not None and carried_index != index:
        raise InvalidState(
            f"index does not match: the state belongs to choice {carried_index}, the chunk to choice {index}; "
            f"each choice of a stream has its own state",
            "stream_state.index",
        )
    if carried_request is not None and request_id is not None and carried_request != request_id:
        raise InvalidState(
            "request_id does not match: the state belongs to another stream than the chunk", "stream_state.request_id"
        )
