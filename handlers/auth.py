"""Keys of the service: who may use it. They guard every endpoint of every function."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from core.dialects.error_shape import VLLM_ERRORS, ErrorShape
from core.errors import Unauthorized
from handlers.responses import error_response

# These answer without a key, as in vLLM: load balancers have none. Everything else needs one.
_OPEN = frozenset({"/health", "/ping", "/version"})


class ServiceKeys:
    """Lets a request through when it brings one of the keys: as OpenAI's clients do (``Authorization: Bearer KEY``),
    or as Anthropic's (``x-api-key: KEY``).

    ``shapes`` says how the errors of a path look.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str], shapes: Mapping[str, ErrorShape]) -> None:
        self._app = app
        self._shapes = shapes
        self._digests = [_digest(key.encode("utf-8")) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN or self._knows(scope):
            await self._app(scope, receive, send)
            return
        error = Unauthorized("a valid API key is required: Authorization: Bearer KEY")
        response = error_response(error, self._shapes.get(scope["path"], VLLM_ERRORS))
        response.headers["www-authenticate"] = "Bearer"
        await response(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        headers = dict(reversed(scope["headers"]))  # of a repeated header the first counts
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        given = [_digest(key.strip())] if scheme.lower() == b"bearer" else []
        if b"x-api-key" in headers:
            given.append(_digest(headers[b"x-api-key"].strip()))
        # Digests, compared in constant time: how long it takes tells nothing of a key.
        return any(hmac.compare_digest(digest, known) for digest in given for known in self._digests)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
