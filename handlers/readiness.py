"""Whether a server can do its work: ``GET /ready``, for who sends it requests.

``GET /health`` says that the process lives and has its model. This says besides,
where it is wanted, that an engine is there. Anybody may ask, so what is
asked of the engines is asked once for all who ask within a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from core.errors import Unavailable
from core.model import Model
from handlers.routing import Route, Router

PATH = "/ready"
_KEPT_SECONDS = 1.0


class Readiness:
    """The route. ``engine_answers`` says whether any engine does; None where none is asked."""

    def __init__(self, engine_answers: Callable[[], Awaitable[bool]] | None) -> None:
        self._ask = engine_answers
        self._known: bool = False
        self._until = 0.0
        self._asking = asyncio.Lock()

    async def _engine_answers(self) -> bool:
        if self._ask is None:
            return True
        async with self._asking:
            if time.monotonic() >= self._until:
                self._known = await self._ask()
                self._until = time.monotonic() + _KEPT_SECONDS
            return self._known

    def router(self) -> Router:
        """The route."""

        async def ready(model: Model, body: bytes, request: Request) -> Response:
            elsewhere = request.app.state.elsewhere
            if elsewhere is not None:
                elsewhere.check()
            if not await self._engine_answers():
                raise Unavailable("no engine answers")
            return Response(status_code=200)

        route = Route(PATH, "Ready", ready, lambda: (), method="GET", has_body=False, is_open=True)
        return Router(routes=(route,), encodes=False)
