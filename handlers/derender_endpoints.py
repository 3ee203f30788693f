"""Raw bodies of the derender function's endpoints to core, and back."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError

from core.derender.chat import derender_chat
from core.derender.completions import derender_completion
from core.derender.stream import derender_chat_stream, derender_completion_stream
from core.errors import BadRequest
from core.model import Model
from core.protocol.derender import (
    DerenderChatRequest,
    DerenderChatStreamRequest,
    DerenderCompletionRequest,
    DerenderCompletionStreamRequest,
    parse_derender,
)
from core.protocol.lists import PromptIds
from core.protocol.schema_error import schema_error
from handlers.metrics import Work, count
from handlers.routing import Route, Router, json_endpoint


class DetokenizeRequest(BaseModel):
    """Body of ``/detokenize``."""

    model: str | None = None
    tokens: PromptIds


def chat(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    parsed = parse_derender(body, DerenderChatRequest, DerenderChatStreamRequest)
    count(request, _work(parsed))
    if isinstance(parsed, DerenderChatStreamRequest):
        return derender_chat_stream(model, parsed)
    return derender_chat(model, parsed)


def completions(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    parsed = parse_derender(body, DerenderCompletionRequest, DerenderCompletionStreamRequest)
    count(request, _work(parsed))
    if isinstance(parsed, DerenderCompletionStreamRequest):
        return derender_completion_stream(model, parsed)
    return derender_completion(model, parsed)


def detokenize(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    try:
        parsed = DetokenizeRequest.model_validate_json(body)
    except ValidationError as exc:
        raise schema_error(exc) from exc
    count(request, Work(completion_tokens=len(parsed.tokens)))
    model.resolve_name(parsed.model)
    try:
        return {"prompt": model.tokenizer.decode(parsed.tokens)}
    except OverflowError as exc:
        raise BadRequest(str(exc), "tokens") from exc


def _work(
    parsed: DerenderChatRequest
    | DerenderChatStreamRequest
    | DerenderCompletionRequest
    | DerenderCompletionStreamRequest,
) -> Work:
    """The token ids that a body holds of an engine's output."""
    if isinstance(parsed, DerenderChatStreamRequest | DerenderCompletionStreamRequest):
        chunks = parsed.chunks
        ids = sum(len(choice.token_ids or ()) for chunk in chunks for choice in chunk.choices)
        return Work(completion_tokens=ids, chunks=len(chunks))
    responses = [parsed.generate_response] if isinstance(parsed, DerenderChatRequest) else parsed.generate_responses
    return Work(completion_tokens=sum(len(choice.token_ids or ()) for answer in responses for choice in answer.choices))


DERENDER = Router(
    routes=(
        Route(
            "/v1/chat/completions/derender",
            "Derender chat",
            json_endpoint(chat),
            forms=lambda: (DerenderChatRequest, DerenderChatStreamRequest),
        ),
        Route(
            "/v1/completions/derender",
            "Derender completions",
            json_endpoint(completions),
            forms=lambda: (DerenderCompletionRequest, DerenderCompletionStreamRequest),
        ),
        Route("/detokenize", "Detokenize", json_endpoint(detokenize), forms=lambda: (DetokenizeRequest,)),
    ),
    encodes=False,
)
