"""What an application is composed of: routers, each of them the routes of one function.

The module of a function's endpoints declares its router. A Lambda entry and
the server compose their application from the routers that they import, so
that what an entry imports is what it serves, loads and ships.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from core.dialects.error_shape import VLLM_ERRORS, ErrorShape
from core.model import ImagesOf, Model
from handlers.responses import json_response
from handlers.settings import Settings

if TYPE_CHECKING:
    from core.choice.output import Report

Endpoint = Callable[[Model, bytes, Request], Awaitable[Response]]
"""Answers the raw body of a request; raises a ``RequestError`` for what it refuses."""


@dataclass(frozen=True, eq=False, repr=False)
class Steps:
    """An endpoint in two steps: ``open`` computes and waits for nothing, ``respond`` waits for others and the client.

    What ``open`` returns can be pickled: a server may take the first step in another process, unless it ``stays``.
    """

    open: Callable[[Model, bytes, Request], Any]
    respond: Callable[[Model, Any, Request], Awaitable[Response]]
    stays: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Route:
    """A route: of a POST unless ``method`` says something else, and whose body is read unless it has none.

    ``forms`` gives the types of its body, for the OpenAPI document alone: a
    cold start loads none. ``errors`` is how its errors look. ``steps`` are
    those of its ``endpoint``, where it has two. An ``is_open`` route wants no key.
    """

    path: str
    name: str
    endpoint: Endpoint
    forms: Callable[[], Sequence[type[BaseModel]]]
    errors: ErrorShape = VLLM_ERRORS
    steps: Steps | None = None
    method: str = "POST"
    has_body: bool = True
    is_open: bool = False


class Elsewhere(Protocol):
    """Where an application's endpoints leave work that would keep others waiting; ``app.state.elsewhere``, or None."""

    def check(self) -> None:
        """See that work can be done there.

        Raises:
            Unavailable: it cannot.
        """
        ...

    async def written(self, write: Callable[[Report], bytes], model: Model, request: Request, *, large: bool) -> bytes:
        """What ``write`` gives in another process; what the audit found there is noted for ``request``.

        ``large`` says that ``write`` holds much.

        Raises:
            RequestError: what it raises; or there is no room for it, or it took too long.
        """
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Router:
    """The routes of one function.

    ``encodes`` says whether they turn text into tokens as a rule. ``close``
    gives back what the routes hold when the server ends. ``engines`` says of each
    engine that they use whether it can be used, ``engine_answers`` asks whether any does.
    """

    routes: tuple[Route, ...]
    encodes: bool
    images: Callable[[Settings], ImagesOf] | None = None
    close: Callable[[], Awaitable[None]] | None = None
    engines: Callable[[], dict[str, bool]] | None = None
    engine_answers: Callable[[], Awaitable[bool]] | None = None

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(route.path for route in self.routes)


def two_steps(steps: Steps) -> Endpoint:
    """The endpoint that takes both steps."""

    async def endpoint(model: Model, body: bytes, request: Request) -> Response:
        return await steps.respond(model, steps.open(model, body, request), request)

    return endpoint


def json_endpoint(answer: Callable[[Model, bytes, Request], Any]) -> Endpoint:
    """The endpoint whose response is what ``answer`` returns, as JSON."""

    async def endpoint(model: Model, body: bytes, request: Request) -> Response:
        return json_response(answer(model, body, request))

    return endpoint
