"""The engine's answer on the wire: server-sent events into chunks.

It must never wait or read anything itself: bytes go in, what is complete comes
out. What does not keep to the protocol is an :class:`EngineFailed`, never an
exception of another kind.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

import orjson
from pydantic import ValidationError

from core.errors import RequestError
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.relay.errors import EngineFailed, error_of_engine

# The log probabilities of a whole vocabulary are about 10 MB a token; a longer event is refused.
MAX_EVENT_BYTES = 64 * 1024 * 1024
# What Python takes for a piece of bytes and its place in a list.
_PIECE_BYTES = 41
_END = b"[DONE]"
# Seconds, or a date (RFC 9110, 10.2.3).
_RETRY_AFTER = re.compile(r"[0-9]{1,9}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT")
_NOT_A_CHUNK = "the engine sent something that is not a chunk of its protocol"


class EventReader:
    """Puts network blocks together to events; keeps the unfinished line and event of the last block.

    Every byte is looked at once, however the network cuts the stream.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        # Bytes that are kept, with what Python adds for each piece.
        self._size = 0
        self._first_line = True
        self._after_return = False

    def feed(self, block: bytes) -> list[bytes]:
        """The data of every event that is complete with this block; comments and other fields are left out.

        Raises:
            EngineFailed: an event is longer than any can be.
        """
        if self._after_return:
            # A line end may be cut in two by the network.
            block = block.removeprefix(b"\n")
            self._after_return = False
        if b"\r" in block:
            self._after_return = block.endswith(b"\r")
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = block.split(b"\n")
        events = []
        for line in ended:
            if self._line:
                line = b"".join([*self._line, line])
                self._line = []
            if self._first_line:
                line = line.removeprefix(codecs.BOM_UTF8)
                self._first_line = False
            if line.startswith(b"data:"):
                data = line[5:].removeprefix(b" ")
                self._data.append(data)
                self._keep(len(data))
            elif not line:
                if any(self._data):
                    events.append(b"\n".join(self._data))
                self._data = []
                self._size = 0
        if rest:
            self._line.append(rest)
            self._keep(len(rest))
        return events

    def end(self) -> list[bytes]:
        """The data of an event whose last line ends were not sent; nothing where the stream broke off inside it."""
        rest = self.feed(b"\n\n")
        return [data for data in rest if data == _END or _decoded(data) is not None]

    def _keep(self, size: int) -> None:
        self._size += size + _PIECE_BYTES
        if self._size > MAX_EVENT_BYTES:
            raise EngineFailed("the engine sent an event that is too long")


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


def read_error(status: int, body: bytes, retry_after: str | None = None) -> RequestError:
    """The error of an answer that is not 200; ``retry_after`` is its header of that name."""
    return error_of_engine(status, _decoded(body), retry_after)


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
