"""Writing answers: JSON, and errors in the shape of the endpoint's dialect."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from core.dialects.error_shape import VLLM_ERRORS, ErrorShape
from core.errors import RequestError
from core.protocol.json_text import json_bytes

_JSON = "application/json"


def json_response(content: Any, status: int = 200) -> Response:
    """``content`` as a JSON response."""
    return Response(json_bytes(content), status_code=status, media_type=_JSON)


def error_response(error: RequestError, shape: ErrorShape = VLLM_ERRORS) -> Response:
    """An error with its status, written as ``shape`` says."""
    return json_response(shape.body(error), error.status)
