"""What a server answers on its event loop, and what it leaves to its work processes.

Short bodies are answered on the loop, one at each turn of it: what waits on a
socket, a stream or a health check, gets its turn between two of them. What
proves to be long on the way (a state to replay, a whole output to parse), and
every larger body, is a job.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from core.choice.output import Report
from core.errors import LongWork, PayloadTooLarge, TooSlow
from core.model import Model
from core.options import SHORT_BYTES
from handlers.auth import CALLER
from handlers.beside import beside
from handlers.body import receive_body, unpack_body
from handlers.loading import ModelLoader
from handlers.metrics import count
from handlers.routing import Route, Steps
from handlers.settings import Settings
from handlers.sse import unless_gone
from handlers.work.frames import apart
from handlers.work.pool import WorkPool
from handlers.work.room import Room
from handlers.work.tasks import Answer, Job, WorkedResponse, answer, finish, open_request


class Turns:
    """Lets one through at each turn of the event loop; who finds nobody before it does not wait."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        if self._taken:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
            await turn  # cancelled: its turn passes unused
        else:
            self._taken = True
            loop.call_soon(self._next)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._taken = False


class Offloading:
    """The handlers of a server's routes. Without a ``pool`` everything is done on the loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turns = Turns()
        self.room = Room(settings.max_bytes_in_flight, settings.max_connections)
        self.pool: WorkPool | None = None
        self.routes: dict[str, Route] = {}

    def handler(self, route: Route, loader: ModelLoader) -> Callable[[Request], Awaitable[Response]]:
        """What answers the requests of a route."""
        self.routes[route.path] = route

        async def handle(request: Request) -> Response:
            if not route.has_body:
                return await route.endpoint(loader.get(), b"", request)
            with self.room.taken() as took:
                raw = await self._received(request, took)
                model = loader.get()
                found = await self._first_step(route, model, raw, request)
                del raw
            if route.steps is None or isinstance(found, Response):
                response: Response = found
                return response
            return await route.steps.respond(model, found, request)

        return handle

    async def _received(self, request: Request, took: Callable[[int], None]) -> bytes:
        """The body of a request, within its time."""
        seconds = self._settings.body_timeout
        try:
            async with asyncio.timeout(seconds or None):
                return await receive_body(request, self._settings.max_body_bytes, took)
        except TimeoutError:
            raise TooSlow(f"the request's body did not come within {seconds:g} seconds") from None

    async def _first_step(self, route: Route, model: Model, raw: bytes, request: Request) -> Any:
        """The response to a request; of a route in two steps what the first gives, or a response."""
        pool = self.pool
        if pool is None:
            return await _step(route, model, unpack_body(raw, request.headers, self._settings.max_body_bytes), request)
        if len(raw) <= SHORT_BYTES:
            try:
                async with self._turns:
                    return await _step(route, model.short, _unpack_short(raw, request), request)
            except LongWork:
                pass
        if route.steps is not None and route.steps.stays:
            return await beside(self._opened, route.steps, model, raw, request)
        job = Job(route.path, request.headers.raw, _known(request), apart(raw))
        work = pool.call(answer if route.steps is None else open_request, job, caller=_known(request).get(CALLER))
        found = await unless_gone(request, work)
        if not isinstance(found, Answer):
            return found
        count(request, found.work)
        if found.findings is not None:
            found.findings.note(request, model)
        return WorkedResponse(found)

    def _opened(self, steps: Steps, model: Model, raw: bytes, request: Request) -> Any:
        return steps.open(model, unpack_body(raw, request.headers, self._settings.max_body_bytes), request)

    def check(self) -> None:
        """See :class:`~handlers.routing.Elsewhere`."""
        if self.pool is not None:
            self.pool.check()

    async def written(self, write: Callable[[Report], bytes], model: Model, request: Request, *, large: bool) -> bytes:
        """See :class:`~handlers.routing.Elsewhere`."""
        assert self.pool is not None
        text, findings = await self.pool.call(finish, write, apart=large, caller=_known(request).get(CALLER))
        findings.note(request, model)
        return bytes(text)


async def _step(route: Route, model: Model, body: bytes, request: Request) -> Any:
    if route.steps is None:
        return await route.endpoint(model, body, request)
    return route.steps.open(model, body, request)


def _unpack_short(raw: bytes, request: Request) -> bytes:
    try:
        return unpack_body(raw, request.headers, SHORT_BYTES)
    except PayloadTooLarge:
        raise LongWork from None


def _known(request: Request) -> dict[str, Any]:
    """What the server found out about a request's caller."""
    state = request.scope.get("state", {})
    return {CALLER: state[CALLER]} if CALLER in state else {}
