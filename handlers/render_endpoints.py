"""Raw bodies of the render function's endpoints to core, and back."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from core.model import Model
from core.render.chat import render_chat
from core.render.completions import render_completion
from core.render.request import decode_body
from core.render.tokenize import tokenize as tokenize_request

_REQUEST_ID = "x-request-id"


def chat(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    return render_chat(model, decode_body(body), request.headers.get(_REQUEST_ID))


def completions(model: Model, body: bytes, request: Request) -> list[dict[str, Any]]:
    return render_completion(model, decode_body(body), request.headers.get(_REQUEST_ID))


def tokenize(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    return tokenize_request(model, decode_body(body))


def __getattr__(name: str) -> Any:
    """``TOKENIZE_FORMS``, the types of ``/tokenize``'s body: only the OpenAPI document asks, and it alone pays."""
    if name != "TOKENIZE_FORMS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vllm.entrypoints.serve.tokenize.protocol import TokenizeChatRequest, TokenizeCompletionRequest

    return TokenizeCompletionRequest, TokenizeChatRequest
