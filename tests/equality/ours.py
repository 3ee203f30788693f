"""The cases through our own derender functions, those that the handlers call."""

from __future__ import annotations

from typing import Any

from core.derender.chat import derender_chat
from core.derender.stream import derender_chat_stream
from core.errors import RequestError
from core.model import Model
from core.protocol.derender import DerenderChatRequest, DerenderChatStreamRequest
from tests.equality import joined
from tests.equality.wire import Case, Json, engine_chunks, one_shot_body, stream_body


def one_shot(model: Model, case: Case) -> Json:
    """The joined one-shot answer."""
    try:
        return joined.whole(derender_chat(model, DerenderChatRequest.model_validate(one_shot_body(case))))
    except RequestError:
        return joined.REFUSED


def streamed(model: Model, case: Case, chunking: str) -> Json:
    """The joined stream of one chunking.

    One call a chunk, the parser carried by checkpoints; the finest chunkings
    are sent a hundred chunks a call.
    """
    chunks = engine_chunks(case, case.chunkings[chunking])
    size = 100 if chunking in ("by 1", "by 3") else 1
    answers: list[Json] = []
    state: Any = None
    try:
        for start in range(0, len(chunks), size):
            body = {**stream_body(case), "generate_chunks": chunks[start : start + size], "stream_state": state}
            answer = derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))
            state = answer["stream_state"]
            answers += answer["chunks"]
    except RequestError:
        return joined.REFUSED
    return joined.streamed(answers)
