"""Raw bodies of the render function's endpoints to core, and back."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from core.model import Model
from core.render.chat import render_chat
from core.render.completions import render_completion
from core.render.request import decode_body
from core.render.tokenize import tokenize as tokenize_request
from handlers.logs import Work, count

_REQUEST_ID = "x-request-id"


def chat(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    answer = render_chat(model, decode_body(body), request.headers.get(_REQUEST_ID))
    count(request, Work(tokens_out=len(answer["token_ids"])))
    return answer


def completions(model: Model, body: bytes, request: Request) -> list[dict[str, Any]]:
    answers = render_completion(model, decode_body(body), request.headers.get(_REQUEST_ID))
    count(request, Work(tokens_out=sum(len(answer["token_ids"]) for answer in answers)))
    return answers


def tokenize(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    answer = tokenize_request(model, decode_body(body))
    count(request, Work(tokens_out=answer["count"]))
    return answer


def __getattr__(name: str) -> Any:
    """``TOKENIZE_FORMS``, the types of ``/tokenize``'s body: only the OpenAPI document asks, and it alone pays."""
    if name != "TOKENIZE_FORMS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vllm.entrypoints.serve.tokenize.protocol import TokenizeChatRequest, TokenizeCompletionRequest

    return TokenizeCompletionRequest, TokenizeChatRequest
