"""Counting the tokens of a prompt, in the dialects that have an endpoint for it.

Both the render function and the relay serve these routes: clients ask where they generate.
"""

from __future__ import annotations

from typing import Any

from core.dialects import DIALECTS
from core.dialects.dialect import Dialect
from core.model import Model
from core.protocol.body import decode_request
from handlers.audit import findings_of
from handlers.metrics import Work, count
from handlers.routing import Route, json_endpoint
from handlers.web import Request


def count_routes(*, relayed: bool = False) -> tuple[Route, ...]:
    """The routes that count; ``relayed`` the prompts that the relay writes."""
    return tuple(_route(dialect, dialect.count_path, relayed) for dialect in DIALECTS if dialect.count_path is not None)


def _route(dialect: Dialect, path: str, relayed: bool) -> Route:
    counting = dialect.counting
    assert counting is not None

    def endpoint(model: Model, body: bytes, request: Request) -> Any:
        counted = counting().count(model, decode_request(body), relayed=relayed)
        findings_of(request, model, counted.findings)
        count(request, Work(prompt_tokens=counted.tokens))
        return counted.answer

    return Route(
        path,
        f"Count tokens of {dialect.name}",
        json_endpoint(endpoint),
        forms=lambda: counting().count_forms(),
        errors=dialect.errors,
    )
