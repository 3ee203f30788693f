"""Bearer keys: who may use the service. They guard every endpoint of every function."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from core.errors import Unauthorized
from handlers.responses import error_response

# These answer without a key, as in vLLM: load balancers have none. Everything else needs one.
_OPEN = frozenset({"/health", "/ping", "/version"})


class BearerKeys:
    """Lets a request through when it brings one of the keys."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode("utf-8")) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN or self._knows(scope):
            await self._app(scope, receive, send)
            return
        response = error_response(Unauthorized("a valid API key is required: Authorization: Bearer KEY"))
        response.headers["www-authenticate"] = "Bearer"
        await response(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = given.partition(b" ")
        digest = _digest(key.strip())
        # Digests, compared in constant time: how long it takes tells nothing of a key.
        return scheme.lower() == b"bearer" and any(hmac.compare_digest(digest, known) for known in self._digests)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
