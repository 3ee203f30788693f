"""Effects carried out on an event loop. Each open stream has a task that reads ahead into a queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar

import httpx

from derender_client._effects import (
    Effect,
    Emit,
    Ended,
    Event,
    Finished,
    Json,
    Lost,
    Now,
    Open,
    Post,
    Read,
    Reply,
    Sleep,
    Steps,
    Together,
    advance,
)
from derender_client._sse import EventDecoder

T = TypeVar("T")
# Events that are read ahead at most; then the engine waits, as it would for any slow reader.
_AHEAD = 1024


class AsyncIO:
    """Carries out what steps ask for, through ``http``. Steps that go together run at the same time."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def run(self, steps: Steps[T]) -> T:
        """The result of steps that emit nothing."""
        step = advance(steps, None)
        while not isinstance(step, Finished):
            step = advance(steps, await self._carry_out(step))
        return step.value

    async def iterate(self, steps: Steps[None]) -> AsyncGenerator[Json, None]:
        """What steps emit. Closing the iterator closes the streams that they opened."""
        reader = _Reader()
        try:
            step = advance(steps, None)
            while not isinstance(step, Finished):
                result: Any = None
                match step:
                    case Emit(value):
                        yield value
                    case Read(timeout):
                        result = await reader.read(timeout)
                    case Open():
                        result = await self._open(reader, step)
                    case _:
                        result = await self._carry_out(step)
                step = advance(steps, result)
        finally:
            await reader.close()

    async def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Post():
                return await self._post(effect)
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case Now():
                return time.monotonic()
            case Together(steps):
                return await self._together(steps)
            case _:
                raise TypeError(f"{effect} outside of a stream")

    async def _together(self, steps: Sequence[Steps[Any]]) -> list[Any]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.run(one)) for one in steps]
        except ExceptionGroup as exc:
            raise exc.exceptions[0] from exc.exceptions[0].__cause__
        return [task.result() for task in tasks]

    async def _post(self, post: Post) -> Reply | Lost:
        try:
            response = await self._http.send(post.request(self._http))
        except httpx.RequestError as exc:
            return Lost(exc)
        return Reply(response.status_code, response.headers, response.content)

    async def _open(self, reader: _Reader, effect: Open) -> Reply | Lost:
        try:
            response = await self._http.send(effect.post.request(self._http), stream=True)
            if response.status_code == 200:
                reader.add(effect.source, response)
                return Reply(200, response.headers, b"")
            try:
                return Reply(response.status_code, response.headers, await response.aread())
            finally:
                await response.aclose()
        except httpx.RequestError as exc:
            return Lost(exc)


class _Reader:
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
        """End all streams. An engine stops generating when its client goes away."""
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
