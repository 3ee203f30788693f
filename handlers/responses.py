"""Writing answers: JSON, and errors in the shape of the endpoint's dialect."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from core.dialects.error_shape import VLLM_ERRORS, ErrorShape
from core.errors import RequestError, TooSlow
from core.protocol.json_text import long_json_bytes

_JSON = "application/json"


def json_response(content: Any, status: int = 200) -> Response:
    """``content`` as a JSON response."""
    return Response(long_json_bytes(content), status_code=status, media_type=_JSON)


def text_response(text: bytes) -> Response:
    """JSON text as a response."""
    return Response(text, media_type=_JSON)


def error_response(error: RequestError, shape: ErrorShape = VLLM_ERRORS) -> Response:
    """An error with its status, written as ``shape`` says."""
    response = json_response(shape.body(error), error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = str(error.retry_after)
    if isinstance(error, TooSlow):
        # The rest of what did not come is nobody's next request.
        response.headers["connection"] = "close"
    return response
