"""uvicorn's server, with an end that has an end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from handlers.drain import Drain

# For the last events and for telling the engines, after the while.
_LAST_SECONDS = 5


class DrainingServer(uvicorn.Server):
    """The first signal gives what runs ``seconds``, then ends it; the second ends at once.

    ``at_end`` is called last.
    """

    def __init__(self, config: uvicorn.Config, drain: Drain, seconds: float, at_end: Callable[[], None]) -> None:
        config.timeout_graceful_shutdown = int(seconds) + _LAST_SECONDS
        super().__init__(config)
        self._drain = drain
        self._seconds = seconds
        self._at_end = at_end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        timer = asyncio.get_running_loop().call_later(self._seconds, self._drain.end)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()
            self._at_end()  # here: after it, uvicorn ends the process by the signal that it got
