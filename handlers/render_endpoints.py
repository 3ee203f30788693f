"""Raw bodies of the render function's endpoints to core, and back."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from core.model import Model
from core.protocol.body import decode_body
from core.render.chat import render_chat
from core.render.completions import render_completion
from core.render.tokenize import tokenize as tokenize_request
from handlers.metrics import Work, count
from handlers.request_forms import chat_forms, completion_forms, tokenize_forms
from handlers.routing import Route, Router, json_endpoint

_REQUEST_ID = "x-request-id"


def chat(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    answer = render_chat(model, decode_body(body), request.headers.get(_REQUEST_ID))
    count(request, Work(prompt_tokens=len(answer["token_ids"])))
    return answer


def completions(model: Model, body: bytes, request: Request) -> list[dict[str, Any]]:
    answers = render_completion(model, decode_body(body), request.headers.get(_REQUEST_ID))
    count(request, Work(prompt_tokens=sum(len(answer["token_ids"]) for answer in answers)))
    return answers


def tokenize(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    answer = tokenize_request(model, decode_body(body))
    count(request, Work(prompt_tokens=answer["count"]))
    return answer


RENDER = Router(
    routes=(
        Route("/v1/chat/completions/render", "Render chat", json_endpoint(chat), chat_forms),
        Route("/v1/completions/render", "Render completions", json_endpoint(completions), completion_forms),
        Route("/tokenize", "Tokenize", json_endpoint(tokenize), tokenize_forms),
    ),
    encodes=True,
)
