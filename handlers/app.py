"""The FastAPI application: routes, and nothing else that an endpoint function does not do.

Endpoints are ``async def`` and validate the raw body once (a sync endpoint
costs a thread hop, a parsed-first body a second validation; see
``docs/performance.md``). One application serves everything when run as a
server; a Lambda function asks for its own part of the routes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from core.errors import RequestError, Unavailable
from core.model import VLLM_VERSION, Model
from handlers.body import read_body
from handlers.loading import ModelLoader
from handlers.logs import RequestLog, write_fault, write_line
from handlers.responses import error_response, internal_error, json_response
from handlers.settings import Settings
from handlers.sse import EventStream

Endpoint = Callable[[Model, bytes, Request], Any]
FUNCTIONS = ("render", "derender", "relay")


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        from handlers.openapi import openapi_document  # only a reader of the document pays for it

        return openapi_document(self)


def create_app(settings: Settings, functions: tuple[str, ...] = FUNCTIONS) -> FastAPI:
    """The application of one deployment, with the model loaded.

    Parameters
    ----------
    functions:
        Which functions' routes to serve: ``"render"``, ``"derender"``, and
        ``"relay"``, which has some only where an engine is configured.

    Raises:
        ConfigurationError: the settings or the model cannot work.
    """
    # vLLM's own loggers quote what a parser or a template could not read, that is outputs and prompts: they are
    # silent unless the operator asks for them by vLLM's own variable.
    logging.getLogger("vllm").setLevel(settings.environ.get("VLLM_LOGGING_LEVEL") or logging.CRITICAL)
    relays = "relay" in functions and bool(settings.engine_url)
    loader = ModelLoader(settings, encodes="render" in functions or relays)
    loader.load()
    log = _request_log(settings)
    app = _Application(title="derender", version=VLLM_VERSION, docs_url=None, redoc_url=None)
    app.state.request_log = log
    app.state.loader = loader

    def post(path: str, endpoint: Endpoint, summary: str) -> None:
        async def handle(request: Request) -> Response:
            body = await read_body(request, settings.max_body_bytes)
            return json_response(endpoint(loader.get(), body, request))

        app.add_api_route(path, _guarded(handle, path, log), methods=["POST"], name=summary)

    if "derender" in functions:
        from handlers import derender_endpoints

        post("/v1/chat/completions/derender", derender_endpoints.chat, "Derender chat")
        post("/v1/completions/derender", derender_endpoints.completions, "Derender completions")
        post("/detokenize", derender_endpoints.detokenize, "Detokenize")
    if "render" in functions:
        from handlers import render_endpoints

        post("/v1/chat/completions/render", render_endpoints.chat, "Render chat")
        post("/v1/completions/render", render_endpoints.completions, "Render completions")
        post("/tokenize", render_endpoints.tokenize, "Tokenize")
    if relays:
        _add_relay(app, loader, settings, log)
    if settings.api_key:
        from handlers.relay_keys import BearerKeys

        app.add_middleware(BearerKeys, keys=settings.api_key)
    _add_service_routes(app, loader)
    return app


def _add_relay(app: FastAPI, loader: ModelLoader, settings: Settings, log: RequestLog | None) -> None:
    from handlers.relay_endpoints import Relay  # httpx: only a deployment with an engine has a use for it

    relay = Relay(settings)

    async def chat(request: Request) -> Response:
        return await relay.chat(loader.get(), await read_body(request, settings.max_body_bytes), request)

    async def completions(request: Request) -> Response:
        return await relay.completions(loader.get(), await read_body(request, settings.max_body_bytes), request)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await relay.close()

    for path, endpoint, summary in (
        ("/v1/chat/completions", chat, "Chat"),
        ("/v1/completions", completions, "Completions"),
    ):
        app.add_api_route(path, _guarded(endpoint, path, log), methods=["POST"], name=summary)
    app.router.lifespan_context = lifespan


def _request_log(settings: Settings) -> RequestLog | None:
    if settings.request_log == "off":
        return None
    function = settings.environ.get("AWS_LAMBDA_FUNCTION_NAME", "derender")
    return RequestLog(function, only_errors=settings.request_log == "errors")


def _guarded(
    handle: Callable[[Request], Awaitable[Response]], endpoint: str, log: RequestLog | None = None
) -> Callable[[Request], Awaitable[Response]]:
    """Turn what an endpoint raises into an answer, and log the request. The one place that does."""

    async def answer(request: Request) -> Response:
        began = time.perf_counter()
        try:
            response = await handle(request)
        except RequestError as exc:
            if isinstance(exc, Unavailable) and exc.reason:
                write_line("ERROR", "the model is not loaded", reason=exc.reason)
            response = error_response(exc)
        except Exception as exc:
            write_fault(exc, endpoint)
            response = internal_error()
        if log is not None:

            def note() -> None:
                log.request(request, endpoint, response, time.perf_counter() - began)

            if isinstance(response, EventStream):
                response.at_end = note
            else:
                note()
        return response

    return answer


def _add_service_routes(app: FastAPI, loader: ModelLoader) -> None:
    async def health(request: Request) -> Response:
        loader.get()
        return Response(status_code=200)

    async def models(request: Request) -> Response:
        from handlers.models_endpoint import list_models

        return json_response(list_models(loader.get()))

    async def version(request: Request) -> Response:
        return json_response({"version": VLLM_VERSION})

    app.add_api_route("/health", _guarded(health, "/health"), methods=["GET"], name="Health")
    app.add_api_route("/ping", _guarded(health, "/ping"), methods=["GET"], name="Ping")
    app.add_api_route("/ping", _guarded(health, "/ping"), methods=["POST"], name="Ping (POST)")
    app.add_api_route("/v1/models", _guarded(models, "/v1/models"), methods=["GET"], name="Models")
    app.add_api_route("/version", _guarded(version, "/version"), methods=["GET"], name="Version")
