"""Writing answers: JSON, and errors in vLLM's error shape."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from core.errors import RequestError
from core.protocol.json_text import json_bytes

_JSON = "application/json"


def json_response(content: Any, status: int = 200) -> Response:
    """``content`` as a JSON response."""
    return Response(json_bytes(content), status_code=status, media_type=_JSON)


def error_response(error: RequestError) -> Response:
    """An error in vLLM's shape, with its status."""
    return json_response(error.body(), error.status)


def internal_error() -> Response:
    """The answer to a fault of ours. It says nothing of what the request held."""
    fault = {"message": "Internal server error", "type": "InternalServerError", "param": None, "code": 500}
    return json_response({"error": fault}, 500)
