"""Reading open streams for the async client: each has a task that reads ahead into a queue."""

from __future__ import annotations

import asyncio

import httpx

from client._effects import Ended, Event
from client._sse import EventDecoder

# Events that are read ahead at most; then the engine waits, as it would for any slow reader.
_AHEAD = 1024


class AsyncReader:
    """The open streams of one iteration. :meth:`close` ends all of them."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | Ended] = asyncio.Queue(_AHEAD)
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, source: int, response: httpx.Response) -> None:
        """Read a response, which is open as a stream, from here on."""
        self._tasks.append(asyncio.create_task(self._pump(source, response)))

    async def read(self, timeout: float | None) -> Event | Ended | None:
        """The next event of any stream; None after ``timeout`` seconds."""
        if not self._queue.empty():
            return self._queue.get_nowait()
        if timeout == 0:
            return None
        try:
            async with asyncio.timeout(timeout):
                return await self._queue.get()
        except TimeoutError:
            return None

    async def close(self) -> None:
        """End all streams. An engine stops to generate when its client goes away."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pump(self, source: int, response: httpx.Response) -> None:
        decoder = EventDecoder()
        error: Exception | None = None
        try:
            async for piece in response.aiter_bytes():
                for data in decoder.feed(piece):
                    await self._queue.put(Event(source, data))
        except Exception as exc:  # whatever it is, the one who reads must hear of it
            error = exc
        finally:
            await response.aclose()
        await self._queue.put(Ended(source, error))
