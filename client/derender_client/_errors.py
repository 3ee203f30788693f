"""What can go wrong, as one hierarchy.

    ClientError
    ├── ConnectionFailed      no answer: refused, dropped, timed out, or a stream that broke off
    ├── UnexpectedAnswer      an answer that is not of the wire format
    └── ErrorAnswer           a server said no: message, type, param, code
        ├── RequestFailed     with an HTTP status
        └── StreamFailed      in the middle of the engine's stream

What httpx raised is the ``__cause__`` of a ``ConnectionFailed``.
"""

from __future__ import annotations

import json
from typing import Any

_MAX_TEXT = 500


class ClientError(Exception):
    """Base of everything that this package raises about a server."""


class ConnectionFailed(ClientError):
    """There was no complete answer, also after the retries."""


class UnexpectedAnswer(ClientError):
    """The answer is not what this endpoint answers: not JSON, or a field is missing."""


class ErrorAnswer(ClientError):
    """A server answered with an error.

    ``message``, ``type``, ``param`` and ``code`` are those of the server's
    ``{"error": {...}}``; what it did not give is None. Where the body has
    another form (a gateway's, a proxy's), ``message`` is its text.
    """

    def __init__(self, message: str, type: str | None = None, param: str | None = None, code: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.type = type
        self.param = param
        self.code = code


class RequestFailed(ErrorAnswer):
    """An HTTP status that is not a success, also after the retries.

    ``status`` is the HTTP status, ``retry_after`` the seconds that the server
    asked to wait, or None.
    """

    def __init__(self, url: str, status: int, content: bytes, retry_after: float | None = None) -> None:
        super().__init__(*_fields(_parsed(content)))
        self.url = url
        self.status = status
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.url} answered {self.status}: {self.message}"


class StreamFailed(ErrorAnswer):
    """The engine ended its stream with an error event. The chunks before it were given out."""

    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__(*_fields(event))

    def __str__(self) -> str:
        return f"the engine ended its stream with an error: {self.message}"


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace").strip()


def _fields(body: Any) -> tuple[str, str | None, str | None, Any]:
    """(message, type, param, code) of an error body in vLLM's form, FastAPI's or a gateway's."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return _text(error), None, None, None
    message = next((error[name] for name in ("message", "Message", "detail") if error.get(name)), error)
    kind, param = error.get("type"), error.get("param")
    return (
        _text(message),
        kind if isinstance(kind, str) else None,
        param if isinstance(param, str) else None,
        error.get("code"),
    )


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:_MAX_TEXT] or "no reason was given"
