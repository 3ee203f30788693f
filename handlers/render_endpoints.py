"""Raw bodies of the render function's endpoints to core, and back."""

from __future__ import annotations

from typing import Any

from core.dialects import DIALECTS
from core.dialects.dialect import Dialect
from core.model import Model
from core.protocol.body import decode_request
from core.render.tokenize import tokenize as tokenize_request
from core.upstream.requests import tokenize_types
from handlers.audit import findings_of
from handlers.counting import count_routes
from handlers.metrics import Work, count
from handlers.routing import Route, Router, json_endpoint
from handlers.web import Request

REQUEST_ID = "x-request-id"


def _render_route(dialect: Dialect) -> Route:
    if dialect.usual:
        dialect.rendering()  # loaded with the function, and not by its first request

    def render(model: Model, body: bytes, request: Request) -> Any:
        written = dialect.rendering().render(model, decode_request(body), request.headers.get(REQUEST_ID))
        prompts = written if isinstance(written, list) else [written]
        findings_of(request, model, [kind for prompt in prompts for kind in getattr(prompt, "findings", ())])
        count(request, Work(prompt_tokens=sum(len(prompt["token_ids"]) for prompt in prompts)))
        return written

    return Route(
        f"{dialect.path}/render",
        f"Render {dialect.name}",
        json_endpoint(render),
        forms=lambda: dialect.rendering().forms(),
    )


def tokenize(model: Model, body: bytes, request: Request) -> dict[str, Any]:
    answer = tokenize_request(model, decode_request(body))
    count(request, Work(prompt_tokens=answer["count"]))
    return answer


RENDER = Router(
    routes=(
        *map(_render_route, DIALECTS),
        *count_routes(),
        Route("/tokenize", "Tokenize", json_endpoint(tokenize), tokenize_types),
    ),
    encodes=True,
)
