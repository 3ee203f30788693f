"""Raw bodies of the derender function's endpoints to core, and back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Request
from pydantic import BaseModel, Field, ValidationError

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
    schema_error,
)


class DetokenizeRequest(BaseModel):
    """Body of ``/detokenize``."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0)]]


def chat(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    parsed = parse_derender(body, DerenderChatRequest, DerenderChatStreamRequest)
    if isinstance(parsed, DerenderChatStreamRequest):
        return derender_chat_stream(model, parsed)
    return derender_chat(model, parsed)


def completions(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    parsed = parse_derender(body, DerenderCompletionRequest, DerenderCompletionStreamRequest)
    if isinstance(parsed, DerenderCompletionStreamRequest):
        return derender_completion_stream(model, parsed)
    return derender_completion(model, parsed)


def detokenize(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    try:
        parsed = DetokenizeRequest.model_validate_json(body)
    except ValidationError as exc:
        raise schema_error(exc) from exc
    model.resolve_name(parsed.model)
    try:
        return {"prompt": model.tokenizer.decode(parsed.tokens)}
    except OverflowError as exc:
        raise BadRequest(str(exc), "tokens") from exc
