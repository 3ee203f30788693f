"""Errors in Anthropic's shape. Its clients choose their exceptions by the type."""

from __future__ import annotations

from core.dialects.error_shape import ErrorShape
from core.errors import RequestError
from core.json import Json

# The types are Anthropic's, by status: vLLM's ``translate_error_type``, and the gateway's statuses that it never has.
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_SERVER_FAULT = "api_error"


def error_body(error: RequestError) -> Json:
    """The body of an error, which is also the last event of a stream that fails."""
    return {"type": "error", "error": {"type": _TYPES.get(error.status, _SERVER_FAULT), "message": error.message}}


ANTHROPIC_ERRORS = ErrorShape(
    "MessagesErrorResponse",
    error_body,
    {
        "type": "object",
        "required": ["type", "error"],
        "properties": {
            "type": {"const": "error"},
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": {
                    "type": {"enum": [*_TYPES.values(), _SERVER_FAULT]},
                    "message": {"type": "string"},
                },
            },
        },
    },
)
