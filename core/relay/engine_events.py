"""The engine's answer on the wire: server-sent events into chunks.

It must never wait or read anything itself: bytes go in, what is complete comes
out. What does not keep to the protocol is an :class:`EngineFailed`, never an
exception of another kind.
"""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import ValidationError

from core.errors import RequestError
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.relay.errors import EngineFailed, error_of_engine

# The log probabilities of a whole vocabulary are about 10 MB a token; beyond this an event is no event.
MAX_EVENT_BYTES = 64 * 1024 * 1024
_END = b"[DONE]"
_NOT_A_CHUNK = "the engine sent something that is not a chunk of its protocol"


class EventReader:
    """Puts network blocks together to events; keeps the unfinished end of the last block."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, block: bytes) -> list[bytes]:
        """The data of every event that is complete with this block; comments and other fields are left out.

        Raises:
            EngineFailed: an event is longer than any can be.
        """
        last = self._parts[-1][-3:] if self._parts else b""
        self._parts.append(block)
        self._size += len(block)
        if b"\n" not in block and b"\r" not in block and b"\n" not in last and b"\r" not in last:
            if self._size > MAX_EVENT_BYTES:
                raise EngineFailed("the engine sent an event that is too long")
            return []
        text = b"".join(self._parts)
        held = b""
        if b"\r" in text:
            # A line end may be cut in two by the network: a last \r waits for what follows.
            if text.endswith(b"\r"):
                text, held = text[:-1], b"\r"
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *events, rest = text.split(b"\n\n")
        rest += held
        self._parts, self._size = [rest] if rest else [], len(rest)
        if self._size > MAX_EVENT_BYTES:
            raise EngineFailed("the engine sent an event that is too long")
        found = [_data_of(event) for event in events]
        return [data for data in found if data]


def _data_of(event: bytes) -> bytes:
    """The ``data`` field of one event, its lines joined."""
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


def read_chunk(data: bytes) -> GenerateChunk | None:
    """The chunk of one event; None for the event that ends a stream.

    Raises:
        RequestError: the event is the engine's error, or no chunk at all.
    """
    if data == _END:
        return None
    try:
        return GenerateChunk.model_validate_json(data)
    except ValidationError:
        raise _error_in(data) from None


def read_response(body: bytes) -> GenerateResponse:
    """A complete answer.

    Raises:
        RequestError: it is an error, or no answer at all.
    """
    try:
        return GenerateResponse.model_validate_json(body)
    except ValidationError:
        raise _error_in(body) from None


def read_error(status: int, body: bytes) -> RequestError:
    """The error of an answer that is not 200."""
    return error_of_engine(status, _decoded(body))


def _error_in(data: bytes) -> RequestError:
    body = _decoded(data)
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return EngineFailed(_NOT_A_CHUNK)
    code = error.get("code")
    return error_of_engine(code if type(code) is int else 500, body)


def _decoded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
