"""A server's requests as they come and go, whatever answers them: each has an id, and none goes unnoticed.

What no route answers (a wrong key, a path or a method that is not there) is
counted and logged as what it is. Outermost, but for what browsers ask.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handlers.metrics import OTHER, Observer

HEADER = b"x-request-id"
REQUEST_ID = "request_id"
NOTED = "noted"
# A client's id is taken where it can stand in a log and a header as it is.
_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_KINDS = {401: "Unauthorized", 404: "NotFound", 405: "MethodNotAllowed"}


class Traffic:
    """The middleware. ``unrouted`` is told the scope, the status and the seconds of what reached no route."""

    def __init__(self, app: ASGIApp, observer: Observer, unrouted: Callable[[Scope, int, float], None]) -> None:
        self._app = app
        self._observer = observer
        self._unrouted = unrouted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        name = next((value for key, value in scope["headers"] if key == HEADER and _ID.fullmatch(value)), None)
        name = name or secrets.token_hex(16).encode()
        state = scope.setdefault("state", {})
        state[REQUEST_ID] = name.decode("ascii")
        status = 0

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [pair for pair in message["headers"] if pair[0].lower() != HEADER]
                message = {**message, "headers": [*headers, (HEADER, name)]}
            await send(message)

        self._observer.began()
        try:
            await self._app(scope, receive, named)
        finally:
            self._observer.ended()
            if status and not state.get(NOTED):
                seconds = time.perf_counter() - began
                self._observer.answered(None, OTHER, status, seconds, _KINDS.get(status))
                self._unrouted(scope, status, seconds)
