"""The FastAPI application, composed of the routers that an entry imports.

Endpoints are ``async def`` and validate the raw body once (a sync endpoint
costs a thread hop, a parsed-first body a second validation; see
``docs/performance.md``). Every application has the routes by which it is
watched as well: health, models and version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute
from starlette.types import Receive, Scope, Send

from core.dialects.error_shape import VLLM_ERRORS, ErrorShape
from core.errors import InternalFault, RequestError, Unavailable
from core.upstream.version import slice_version, vllm_version
from handlers.audit import write_audit
from handlers.body import read_body
from handlers.drain import Drain
from handlers.loading import ModelLoader
from handlers.logs import RequestLog, write_fault, write_line
from handlers.metrics import Observer
from handlers.responses import error_response, json_response
from handlers.routing import Route, Router
from handlers.settings import Settings
from handlers.sse import EventStream
from handlers.web import FastAPI

# What the log calls a function that is not one of Lambda's.
FUNCTION = "derender"


Handler = Callable[[Route, ModelLoader], Callable[[Request], Awaitable[Response]]]


class _Application(FastAPI):
    def __init__(self, routers: Sequence[Router], root_path: str) -> None:
        super().__init__(
            title="derender",
            version=vllm_version(),
            docs_url=None,
            redoc_url=None,
            lifespan=_closing(routers),
            root_path=root_path,
        )
        routes = (route for router in routers for route in router.routes if route.method == "POST")
        self._post_routes = list({route.path: route for route in routes}.values())

    def openapi(self) -> dict[str, Any]:
        from handlers.openapi import openapi_document  # only a reader of the document pays for it

        return openapi_document(self, self._post_routes)


def create_app(
    settings: Settings, *routers: Router, handler: Handler | None = None, observer: Observer | None = None
) -> FastAPI:
    """The application of one deployment, with the model loaded, that serves ``routers``.

    ``handler`` gives what answers the requests of a route, where that is more
    than calling its endpoint; ``observer`` counts them.

    Raises:
        ConfigurationError: the settings or the model cannot work.
    """
    # vLLM's own loggers quote what a parser or a template could not read, that is outputs and prompts: they are
    # silent unless the operator asks for them by vLLM's own variable.
    logging.getLogger("vllm").setLevel(settings.environ.get("VLLM_LOGGING_LEVEL") or logging.CRITICAL)
    images = next((router.images(settings) for router in routers if router.images is not None), None)
    loader = ModelLoader(settings, encodes=any(router.encodes for router in routers), images=images)
    loader.load()
    for warning in settings.warnings():
        write_line("WARNING", "configuration", reason=warning)
    function = settings.environ.get("AWS_LAMBDA_FUNCTION_NAME", FUNCTION)
    log = _request_log(settings, function)
    app = _Application(routers, settings.root_path)
    app.state.request_log = log
    app.state.loader = loader
    app.state.settings = settings
    app.state.drain = Drain()
    app.state.elsewhere = None
    shapes: dict[str, ErrorShape] = {}
    for router in routers:
        for route in router.routes:
            if route.path in shapes:
                continue  # two routers may share a route
            handle = handler(route, loader) if handler else _handler(route, loader, settings.max_body_bytes)
            notes = _Notes(log, observer, function, settings.for_cloudwatch)
            answer = _guarded(handle, route.path, notes, route.errors)
            _add(app, route.method, route.path, route.name, answer)
            shapes[route.path] = route.errors
    if settings.api_key:
        more_open = [route.path for router in routers for route in router.routes if route.is_open]
        from handlers.auth import ServiceKeys  # late: only a deployment with keys

        app.add_middleware(ServiceKeys, keys=settings.api_key, shapes=shapes, more_open=more_open)
    _add_service_routes(app, loader)
    return app


def _handler(route: Route, loader: ModelLoader, max_body_bytes: int) -> Callable[[Request], Awaitable[Response]]:
    endpoint, has_body = route.endpoint, route.has_body

    async def handle(request: Request) -> Response:
        body = await read_body(request, max_body_bytes) if has_body else b""
        return await endpoint(loader.get(), body, request)

    return handle


def _closing(routers: Sequence[Router]) -> Any:
    """The life of an application: what its routers hold is given back at its end, the last first."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for router in routers:
                if router.close is not None:
                    stack.push_async_callback(router.close)
            yield

    return lifespan


def _request_log(settings: Settings, function: str) -> RequestLog | None:
    if settings.request_log == "off":
        return None
    only_errors = settings.request_log == "errors"
    return RequestLog(function, only_errors, for_cloudwatch=settings.for_cloudwatch)


@dataclass(frozen=True, eq=False, repr=False)
class _Notes:
    """What is noted of requests: in the log, by an observer."""

    log: RequestLog | None = None
    observer: Observer | None = None
    function: str = FUNCTION
    for_cloudwatch: bool = True

    def note(self, request: Request, endpoint: str, response: Response, seconds: float, kind: str | None) -> None:
        status = response.status_code
        if status < 400 and (self.log is None or not self.log.muted):
            write_audit(request, endpoint, self.function, for_cloudwatch=self.for_cloudwatch)
        if self.log is not None:
            self.log.request(request, endpoint, response, seconds)
        if self.observer is not None:
            self.observer.answered(request, endpoint, status, seconds, kind)


def _guarded(
    handle: Callable[[Request], Awaitable[Response]],
    endpoint: str,
    notes: _Notes = _Notes(),  # it is frozen
    errors: ErrorShape = VLLM_ERRORS,
) -> Callable[[Request], Awaitable[Response]]:
    """Turn what an endpoint raises into an answer, and log the request. The one place that does."""

    async def answer(request: Request) -> Response:
        began = time.perf_counter()
        kind = None
        request.state.noted = True
        try:
            response = await handle(request)
        except RequestError as exc:
            kind = type(exc).__name__
            if isinstance(exc, Unavailable) and exc.reason:
                write_line("ERROR", "the model is not loaded", reason=exc.reason)
            response = error_response(exc, errors)
        except Exception as exc:
            kind = InternalFault.__name__
            write_fault(exc, endpoint)
            response = error_response(InternalFault(), errors)

        def note() -> None:
            if notes.observer is not None and isinstance(response, EventStream):
                notes.observer.stream_ended()
            notes.note(request, endpoint, response, time.perf_counter() - began, kind)

        if isinstance(response, EventStream):
            if notes.observer is not None:
                notes.observer.stream_began()
            response.at_end = note
        else:
            note()
        return response

    return answer


def _add_service_routes(app: FastAPI, loader: ModelLoader) -> None:
    async def health(request: Request) -> Response:
        loader.get()
        if app.state.elsewhere is not None:
            app.state.elsewhere.check()
        return Response(status_code=200)

    async def models(request: Request) -> Response:
        from handlers.models_endpoint import list_models  # late: only a caller who asks

        return json_response(list_models(loader.get()))

    async def version(request: Request) -> Response:
        return json_response({"version": vllm_version(), "slice": slice_version()})

    _add(app, "GET", "/health", "Health", _guarded(health, "/health"))
    _add(app, "GET", "/ping", "Ping", _guarded(health, "/ping"))
    _add(app, "POST", "/ping", "Ping (POST)", _guarded(health, "/ping"))
    _add(app, "GET", "/v1/models", "Models", _guarded(models, "/v1/models"))
    _add(app, "GET", "/version", "Version", _guarded(version, "/version"))


class _Served:
    """A handler as an application of its own: its answer needs none of what FastAPI does around a function."""

    def __init__(self, handle: Callable[[Request], Awaitable[Response]]) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._handle(Request(scope, receive, send))
        await response(scope, receive, send)


def _add(app: FastAPI, method: str, path: str, name: str, handle: Callable[[Request], Awaitable[Response]]) -> None:
    route = HttpRoute(path, _Served(handle), methods=[method], name=name)
    route.methods = {method}  # Starlette adds HEAD, which vLLM's server does not answer
    app.router.routes.append(route)
