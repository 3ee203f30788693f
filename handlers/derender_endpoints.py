"""Raw bodies of the derender function's endpoints to core, and back."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from core.bounds import check_decoded_ids
from core.dialects import DIALECTS
from core.dialects.dialect import Dialect
from core.errors import BadRequest
from core.model import Model
from core.protocol.body import decode_body
from core.protocol.derender import OneShotBody, StreamBody, parse_derender
from core.protocol.lists import PromptIds
from core.protocol.schema_error import schema_error
from handlers.audit import findings_of
from handlers.metrics import Work, count
from handlers.routing import Route, Router, json_endpoint
from handlers.web import Request


class DetokenizeRequest(BaseModel):
    """Body of ``/detokenize``."""

    model: str | None = None
    tokens: PromptIds


def _derender_route(dialect: Dialect) -> Route:
    if dialect.usual:
        dialect.derendering()  # loaded with the function, and not by its first request

    def derender(model: Model, body: bytes, request: Request) -> dict[str, Any]:
        door = dialect.derendering()
        parsed = parse_derender(body, *door.bodies())
        count(request, _work(parsed))
        report = findings_of(request, model).report
        if isinstance(parsed, StreamBody):
            return door.derender_stream(model, parsed, report)
        return door.derender(model, parsed, report)

    return Route(
        f"{dialect.path}/derender",
        f"Derender {dialect.name}",
        json_endpoint(derender),
        forms=lambda: dialect.derendering().bodies(),
    )


def detokenize(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    try:
        # Not of the text: pydantic's own form of JSON takes 32 bytes for a number.
        parsed = DetokenizeRequest.model_validate(decode_body(body))
    except ValidationError as exc:
        raise schema_error(exc) from exc
    count(request, Work(completion_tokens=len(parsed.tokens)))
    model.resolve_name(parsed.model)
    check_decoded_ids(len(parsed.tokens), model.limits)
    try:
        return {"prompt": model.tokenizer.decode(parsed.tokens)}
    except OverflowError as exc:
        raise BadRequest(str(exc), "tokens") from exc


def _work(parsed: OneShotBody | StreamBody) -> Work:
    """The token ids that a body holds of an engine's output."""
    if isinstance(parsed, StreamBody):
        chunks = parsed.chunks
        ids = sum(len(choice.token_ids or ()) for chunk in chunks for choice in chunk.choices)
        return Work(completion_tokens=ids, chunks=len(chunks))
    choices = [choice for answer in parsed.answers for choice in answer.choices]
    return Work(completion_tokens=sum(len(choice.token_ids or ()) for choice in choices))


DERENDER = Router(
    routes=(
        *map(_derender_route, DIALECTS),
        Route("/detokenize", "Detokenize", json_endpoint(detokenize), forms=lambda: (DetokenizeRequest,)),
    ),
    encodes=False,
)
