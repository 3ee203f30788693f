"""Server-sent events: a response that is written as it comes, in step with the client.

What the source has at once goes out in one piece, and it is never more than a
few blocks ahead: a client that reads slowly slows it down. A client that goes
away ends the source at once. While the source has nothing to say, comments
keep proxies from closing the line. An error after the first byte is an event
of its own, then the usual end: never a silent one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from core.errors import InternalFault, RequestError, ShuttingDown
from core.protocol.json_text import json_bytes
from handlers.logs import write_fault

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
_AHEAD = 16
# What nginx calls a client that closed its request; nobody is there to read it.
_CLIENT_GONE = 499
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Without it nginx collects the whole answer first.
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True)
class StreamForm:
    """How a stream's events look: with their types as names, or bare and ``[DONE]`` after the last.

    ``fail`` gives the last events of a stream that cannot go on.
    """

    named_events: bool
    fail: Callable[[RequestError], list[Any]]

    def event(self, content: Any) -> bytes:
        """One event."""
        data = b"data: " + json_bytes(content) + b"\n\n"
        return b"event: " + content["type"].encode("ascii") + b"\n" + data if self.named_events else data

    @property
    def end(self) -> bytes:
        """What follows the last event."""
        return b"" if self.named_events else DONE

    def failure(self, error: RequestError) -> bytes:
        """The last events of a stream that fails."""
        return b"".join(map(self.event, self.fail(error))) + self.end


async def respond(
    request: Request, source: AsyncGenerator[bytes, None], keep_alive: float, form: StreamForm
) -> Response:
    """The response that streams ``source``, whose blocks hold whole events of ``form``.

    It begins with the first block, so that what goes wrong before has its own
    status; but after ``keep_alive`` seconds (0: never) it begins without.

    Raises:
        Exception: what the source raises before its first block.
    """
    first = asyncio.ensure_future(anext(source))
    gone = asyncio.ensure_future(_client_gone(request))
    over = asyncio.ensure_future(request.app.state.drain.wait())
    try:
        await asyncio.wait({first, gone, over}, timeout=keep_alive or None, return_when=asyncio.FIRST_COMPLETED)
        if first.done() and first.exception() is None:
            return EventStream(source, first, gone, over, keep_alive, form)
        if not first.done() and not gone.done() and not over.done():
            return EventStream(source, first, gone, over, keep_alive, form)
    except BaseException:
        await _stop(first, gone, over)
        raise
    left, ended = gone.done() and not first.done(), over.done() and not first.done()
    await _stop(first, gone, over)
    if ended:
        await source.aclose()
        raise ShuttingDown
    if left:
        return Response(status_code=_CLIENT_GONE)
    first.result()
    raise AssertionError("unreachable")


async def unless_gone(request: Request, work: Any) -> Any:
    """The result of ``work`` (a coroutine), which is cancelled when the client goes away: then a response of no use.

    Raises:
        Exception: what the work raises.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_client_gone(request))
    over = asyncio.ensure_future(request.app.state.drain.wait())
    try:
        await asyncio.wait({task, gone, over}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if over.done():
            raise ShuttingDown
        return Response(status_code=_CLIENT_GONE)
    finally:
        await _stop(task, gone, over)


class _ClientLeft(Exception):
    """The client has left in the middle of a block."""


class EventStream(Response):
    """A streamed response. ``first`` is the source's first block, ``gone`` is done when the client has left.

    ``over`` is done when the server ends: then the stream ends with an error.

    ``at_end`` is called when it is over; if it failed, ``status_code`` is then
    that of the error, for the log.
    """

    def __init__(
        self,
        source: AsyncGenerator[bytes, None],
        first: asyncio.Future[bytes],
        gone: asyncio.Future[None],
        over: asyncio.Future[None],
        keep_alive: float,
        form: StreamForm,
    ) -> None:
        super().__init__()
        self.raw_headers = list(_HEADERS)  # no length: it is not known
        self.at_end: Callable[[], None] | None = None
        self._source = source
        self._first = first
        self._gone = gone
        self._over = over
        self._keep_alive = keep_alive
        self._form = form
        self._last = 0.0
        self._sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pump = asyncio.ensure_future(self._pump(send, scope["path"]))
        beat = asyncio.ensure_future(self._beat(send))
        try:
            await asyncio.wait({pump, self._gone, self._over}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
            elif self._over.done() and not self._gone.done():
                await self._end_early(pump, send)
        finally:
            await _stop(pump, beat, self._gone, self._over)
            # Where the pump was ended before it began, nobody has waited for these.
            await _stop(self._first)
            await self._source.aclose()
            if self.at_end is not None:
                self.at_end()

    async def _end_early(self, pump: asyncio.Future[None], send: Send) -> None:
        """The server ends: what was sent is whole events, and an error is the last."""
        if self._sending:
            return  # the client does not read: nothing would reach it
        await _stop(pump)
        error = ShuttingDown()
        self.status_code = error.status
        with suppress(_ClientLeft):
            await self._write(send, self._form.failure(error))
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send, path: str) -> None:
        try:
            await self._send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                await self._write(send, await self._first)
                async with aclosing(_joined(self._source)) as blocks:
                    async for block in blocks:
                        await self._write(send, block)
            except StopAsyncIteration:
                pass  # there was no first block
            except RequestError as exc:
                self.status_code = exc.status
                await self._write(send, self._form.failure(exc))
            except _ClientLeft:
                raise
            except Exception as exc:
                write_fault(exc, path)
                self.status_code = 500
                await self._write(send, self._form.failure(InternalFault()))
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})
        except _ClientLeft:
            pass

    async def _write(self, send: Send, block: bytes) -> None:
        self._sending = True
        await self._send(send, {"type": "http.response.body", "body": block, "more_body": True})
        self._sending = False
        self._last = asyncio.get_running_loop().time()

    async def _send(self, send: Send, message: Message) -> None:
        try:
            await send(message)
        except OSError as exc:
            raise _ClientLeft from exc

    async def _beat(self, send: Send) -> None:
        """Send a comment whenever nothing went out for the interval."""
        if not self._keep_alive:
            return
        now = asyncio.get_running_loop().time
        self._last = now()
        while True:
            await asyncio.sleep(max(self._last + self._keep_alive - now(), 0.001))
            if now() - self._last >= self._keep_alive and not self._sending:
                with suppress(_ClientLeft):
                    await self._write(send, KEEP_ALIVE)


async def _joined(source: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The blocks of a source, those that it has without waiting in one piece.

    One write costs more than all that makes a block, and a fast engine sends
    many at a time. At most ``_AHEAD`` blocks are read before they are asked for.
    """
    ready: list[bytes] = []
    some, room = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        async for block in source:
            ready.append(block)
            some.set()
            if len(ready) >= _AHEAD:
                room.clear()
                await room.wait()

    reader = asyncio.ensure_future(read())
    reader.add_done_callback(lambda _: some.set())
    try:
        while True:
            if ready:
                blocks = b"".join(ready)
                ready.clear()
                room.set()
                yield blocks
            elif reader.done():
                reader.result()
                return
            else:
                some.clear()
                await some.wait()
    finally:
        await _stop(reader)


async def _client_gone(request: Request) -> None:
    """Returns once the client has left; the body must be read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _stop(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what still runs, and wait until it has tidied up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
