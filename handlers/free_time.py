"""Waiting for others by the time in which this process could have noticed them.

While the event loop is busy nothing of what has arrived is seen: that time is
this process's own, and no silence of an engine. A pulse measures it, as long
as anybody waits.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

# Seconds between two beats; what a beat is late by more than a tenth of it is lost.
PULSE = 0.05


class Pulse:
    """How much time the event loop was busy, in seconds, since it was first asked.

    ``with`` around a time in which it is asked.
    """

    def __init__(self) -> None:
        self.lost = 0.0
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._users += 1
        if self._timer is None:
            self._next()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users -= 1
        if not self._users and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PULSE, self._beat, loop.time() + PULSE)

    def _beat(self, due: float) -> None:
        late = asyncio.get_running_loop().time() - due
        if late > PULSE / 10:
            self.lost += late
        self._next()


class Silence:
    """For how long somebody may say nothing: ``async with`` around every wait for it.

    The wait ends in a ``TimeoutError`` when ``seconds`` have passed since the
    last :meth:`broken`, without those that the loop has lost; and never before
    a beat in which what has arrived can be read.
    """

    def __init__(self, pulse: Pulse, seconds: float) -> None:
        self._pulse = pulse
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self.broken()

    def broken(self) -> None:
        """It begins anew."""
        self._ends = asyncio.get_running_loop().time() + self._seconds
        self._lost = self._pulse.lost

    def over(self) -> None:
        """There is no more to wait for: the wait that goes on is another."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def __aenter__(self) -> None:
        self._timeout = asyncio.timeout(None)
        await self._timeout.__aenter__()
        self._timer = asyncio.get_running_loop().call_at(self._ends, self._due)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over()
        await self._timeout.__aexit__(kind, error, trace)

    def _due(self) -> None:
        loop = asyncio.get_running_loop()
        lost, self._lost = self._pulse.lost - self._lost, self._pulse.lost
        if lost > 0:
            self._ends = max(self._ends + lost, loop.time() + PULSE)
            self._timer = loop.call_at(self._ends, self._due)
        else:
            self._timeout.reschedule(loop.time())
