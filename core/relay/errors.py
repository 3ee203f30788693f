"""What can go wrong between the relay and its engine, as answers to the client.

    RequestError
    ├── EngineError               another engine may do better
    │   ├── EngineFailed          502: it failed, broke off, or answered what is not of its protocol
    │   ├── EngineTimeout         504: it was silent for too long
    │   ├── EngineUnavailable     503: it cannot be reached, or takes no requests
    │   └── TooManyRequests       429: the engine asks for fewer requests
    └── UnreadableOutput          500: what the model wrote cannot be turned into an answer

No message says where an engine is: its address is the operator's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from core.errors import BadRequest, ModelNotFound, PayloadTooLarge, RequestError, SchemaError

_MAX_MESSAGE = 2_000
_SECONDS = re.compile(r"[0-9]{1,9}")
_LONGEST_WAIT = 3600
_KEY_REFUSED = "the engine refused the key of the relay"


class EngineError(RequestError):
    """The engine did not do its part; another one may."""


class EngineFailed(EngineError):
    """The engine failed, broke off, or answered what is not of its protocol."""

    status: ClassVar[int] = 502
    type: ClassVar[str] = "BadGatewayError"


class EngineTimeout(EngineError):
    """The engine was silent for longer than the deployment waits."""

    status: ClassVar[int] = 504
    type: ClassVar[str] = "GatewayTimeoutError"


class EngineUnavailable(EngineError):
    """The engine cannot be reached, or takes no more requests."""

    status: ClassVar[int] = 503
    type: ClassVar[str] = "ServiceUnavailableError"
    retry_after = 1


class UnreadableOutput(RequestError):
    """What the model wrote cannot be turned into an answer: a parser gave up on it."""

    type: ClassVar[str] = "InternalServerError"
    status: ClassVar[int] = 500


class TooManyRequests(EngineError):
    """The engine asks its callers to slow down; in how many seconds they may come again, it may say, too."""

    status: ClassVar[int] = 429
    type: ClassVar[str] = "RateLimitError"

    def __init__(self, retry_after: str | None = None) -> None:
        super().__init__("the engine takes no more requests now; try again later")
        said = int(retry_after) if retry_after is not None and _SECONDS.fullmatch(retry_after) else 1
        self.retry_after = min(max(said, 1), _LONGEST_WAIT)


def error_of_engine(status: int, body: Any, retry_after: str | None = None) -> RequestError:
    """The answer to a client whose request the engine refused or failed.

    ``body`` is the engine's decoded JSON, or None. What the engine says of the
    client's request (a 4xx in vLLM's error shape) is passed on; a refused key
    is the operator's matter, and what an engine says of its own failures or its
    load may tell of its insides: neither is repeated. ``retry_after`` is its
    header of that name.
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        error = {}
    said, param, kind = error.get("message"), error.get("param"), error.get("type")
    message = said[:_MAX_MESSAGE] if isinstance(said, str) and said else f"the engine refused the request ({status})"
    param = param if isinstance(param, str) else None
    if status in (401, 403):
        return EngineFailed(_KEY_REFUSED)
    if status == 404:
        # Without an error of its own, a 404 says that the address is not one of an engine.
        return ModelNotFound(message, param) if said else EngineFailed("the engine has no generate endpoint")
    if status == 413:
        return PayloadTooLarge(message, param)
    if status == 429:
        return TooManyRequests(retry_after)
    if 400 <= status < 500:
        return SchemaError(message, param) if kind == SchemaError.type else BadRequest(message, param)
    if status == 503:
        return EngineUnavailable("the engine takes no requests now")
    return EngineFailed(f"the engine failed ({status})")
