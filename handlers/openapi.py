"""What OpenAPI says of a body: the endpoints validate raw bytes, so FastAPI cannot read it off a signature."""

from __future__ import annotations

from typing import Any

_DERENDER = "Form: `DerenderChatRequest` or `DerenderChatStreamRequest` of vLLM's derender API; see docs/api.md."


def describe(path: str) -> dict[str, Any]:
    """The ``openapi_extra`` of a POST endpoint: its request body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}
