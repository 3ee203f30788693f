"""uvicorn's HTTP protocol, for clients that are slow, many, or not to be understood in one way only.

Headers and bodies have their time; connections beyond the most are closed; and
what a proxy might read otherwise than this server (a bare line feed between
headers, two lengths of one body) is refused.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from core.errors import Overloaded, RequestError, TooSlow
from handlers.responses import error_response

# Connections beyond the most in which health checks are still answered: a tenth, and some.
_SPARE_SHARE, _SPARE = 10, 32
# What an answer gets to say that the time is up, before the connection is closed.
_GRACE = 2.0
_BARE_FEED = re.compile(rb"(?<!\r)\n")
_LENGTHS = (b"content-length", b"transfer-encoding")


@dataclass(frozen=True)
class Guard:
    """What a server gives its clients: seconds for headers and bodies (0: any), and connections."""

    header_timeout: float
    body_timeout: float
    max_connections: int

    def protocol(self) -> type[H11Protocol]:
        """The protocol class that keeps to it."""
        return type("Guarded", (GuardedProtocol,), {"guard": self})


class GuardedProtocol(H11Protocol):
    """One connection."""

    guard: Guard

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        limit = self.config.h11_max_incomplete_event_size
        self.conn = _Connection(h11.SERVER) if limit is None else _Connection(h11.SERVER, limit)
        self._timer: asyncio.TimerHandle | None = None
        self._waits_for: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        most = self.guard.max_connections
        if len(self.connections) > most + most // _SPARE_SHARE + _SPARE:
            self._refuse(Overloaded("the server has as many connections as it may; try again"))
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Give what is waited for its time: once, however many pieces it comes in."""
        state = self.conn.their_state
        if state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
            return
        if self._timer is not None and self._waits_for is state:
            return
        self._forget()
        self._waits_for = state
        guard = self.guard
        seconds = guard.header_timeout if state is h11.IDLE else guard.body_timeout + _GRACE * bool(guard.body_timeout)
        if seconds:
            self._timer = self.loop.call_later(seconds, self._late)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Between two requests it is uvicorn's own time for idle connections that counts.
        if self.conn.their_state is h11.IDLE:
            self._forget()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._waits_for is h11.IDLE:
            self._refuse(TooSlow(f"the request's headers did not come within {self.guard.header_timeout:g} seconds"))
        else:
            # The answer, if there is one to give, has said so (``handlers.work.offload``).
            self.transport.close()

    def _refuse(self, error: RequestError) -> None:
        response = error_response(error)
        response.headers["connection"] = "close"
        lines = [f"HTTP/1.1 {error.status} ".encode(), *(name + b": " + value for name, value in response.raw_headers)]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()


class _Connection(h11.Connection):
    """A connection that refuses what could be read in two ways."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._receive_buffer = _Buffer()

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request) and {name for name, _ in event.headers}.issuperset(_LENGTHS):
            raise h11.RemoteProtocolError("two lengths of one body")
        return event


class _Buffer(ReceiveBuffer):
    """h11's buffer, without its patience for lines that end in a line feed alone."""

    _in_lines = False

    def maybe_extract_lines(self) -> Any:
        self._in_lines = True
        try:
            return super().maybe_extract_lines()
        finally:
            self._in_lines = False

    def _extract(self, count: int) -> bytearray:
        taken = super()._extract(count)
        if self._in_lines and _BARE_FEED.search(taken):
            raise h11.RemoteProtocolError("a line ends in a line feed alone")
        return taken
