"""Keys of the service: who may use it. They guard every endpoint of every function."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from core.dialects.error_shape import VLLM_ERRORS, ErrorShape
from core.errors import Unauthorized
from handlers.responses import error_response

# These answer without a key, as in vLLM: load balancers have none. Everything else needs one.
# Where a request keeps what its caller is known by: the digest of the key.
CALLER = "caller"
_OPEN = frozenset({"/health", "/ping", "/version"})


class ServiceKeys:
    """Lets a request through when it brings one of the keys: as OpenAI's clients do (``Authorization: Bearer KEY``),
    or as Anthropic's (``x-api-key: KEY``).

    ``shapes`` says how the errors of a path look, ``more_open`` are paths that want no key.
    """

    def __init__(
        self, app: ASGIApp, keys: Sequence[str], shapes: Mapping[str, ErrorShape], more_open: Iterable[str] = ()
    ) -> None:
        self._app = app
        self._open = _OPEN.union(more_open)
        self._shapes = shapes
        self._digests = [_digest(key.encode("utf-8")) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = self._caller(scope) if scope["type"] == "http" else None
        if caller is not None:
            scope.setdefault("state", {})[CALLER] = caller
        path = _path(scope) if scope["type"] == "http" else ""
        if scope["type"] != "http" or path in self._open or caller is not None:
            await self._app(scope, receive, send)
            return
        error = Unauthorized("a valid API key is required: Authorization: Bearer KEY")
        response = error_response(error, self._shapes.get(path, VLLM_ERRORS))
        response.headers["www-authenticate"] = "Bearer"
        await response(scope, receive, send)

    def _caller(self, scope: Scope) -> bytes | None:
        """The digest of the key that a request brings, None where it is none of ours."""
        headers = dict(reversed(scope["headers"]))  # of a repeated header the first counts
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        given = [_digest(key.strip())] if scheme.lower() == b"bearer" else []
        if b"x-api-key" in headers:
            given.append(_digest(headers[b"x-api-key"].strip()))
        # Digests, compared in constant time: how long it takes tells nothing of a key.
        return next((one for one in given if any(hmac.compare_digest(one, known) for known in self._digests)), None)


def _path(scope: Scope) -> str:
    """The path of a request, without what a gateway puts before it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if path.startswith(root + "/") else path


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
