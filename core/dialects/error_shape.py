"""How errors look on the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.errors import RequestError
from core.json import Json


@dataclass(frozen=True)
class ErrorShape:
    """A way to write an error: its body, and the body's name and JSON schema for the OpenAPI document."""

    name: str
    body: Callable[[RequestError], Json]
    schema: Json


VLLM_ERRORS = ErrorShape(
    "ErrorResponse",
    RequestError.body,
    {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": {"type": ["string", "null"]},
                    "code": {"type": "integer"},
                },
            }
        },
    },
)
"""OpenAI's shape as vLLM fills it."""
