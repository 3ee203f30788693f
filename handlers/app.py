"""The FastAPI application: routes, and nothing else that an endpoint function does not do.

Endpoints are ``async def`` and validate the raw body once (a sync endpoint
costs a thread hop, a parsed-first body a second validation; see
``docs/performance.md``). One application serves everything when run as a
server; a Lambda function asks for its own part of the routes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from core.errors import RequestError
from core.model import VLLM_VERSION, Model
from handlers.body import read_body
from handlers.loading import ModelLoader
from handlers.responses import error_response, internal_error, json_response
from handlers.settings import Settings

logger = logging.getLogger("derender")

Endpoint = Callable[[Model, bytes, Request], Any]
FUNCTIONS = ("render", "derender")


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        from handlers.openapi import openapi_document  # only a reader of the document pays for it

        return openapi_document(self)


def create_app(settings: Settings, functions: tuple[str, ...] = FUNCTIONS) -> FastAPI:
    """The application of one deployment, with the model loaded.

    Parameters
    ----------
    functions:
        Which functions' routes to serve: ``"render"``, ``"derender"``.

    Raises:
        ConfigurationError: the settings or the model cannot work.
    """
    loader = ModelLoader(settings)
    loader.load()
    app = _Application(title="derender", version=VLLM_VERSION, docs_url=None, redoc_url=None)

    def post(path: str, endpoint: Endpoint, summary: str) -> None:
        async def handle(request: Request) -> Response:
            body = await read_body(request, settings.max_body_bytes)
            return json_response(endpoint(loader.get(), body, request))

        app.add_api_route(path, _guarded(handle), methods=["POST"], name=summary)

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
    _add_service_routes(app, loader)
    return app


def _guarded(handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Turn what an endpoint raises into an answer. The one place that does."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handle(request)
        except RequestError as exc:
            return error_response(exc)
        except Exception:
            # The trace names code, never the request: bodies hold prompts and outputs.
            logger.exception("%s failed", request.url.path)
            return internal_error()

    return endpoint


def _add_service_routes(app: FastAPI, loader: ModelLoader) -> None:
    async def health(request: Request) -> Response:
        loader.get()
        return Response(status_code=200)

    async def models(request: Request) -> Response:
        from handlers.models_endpoint import list_models

        return json_response(list_models(loader.get()))

    async def version(request: Request) -> Response:
        return json_response({"version": VLLM_VERSION})

    app.add_api_route("/health", _guarded(health), methods=["GET"], name="Health")
    app.add_api_route("/ping", _guarded(health), methods=["GET"], name="Ping")
    app.add_api_route("/ping", _guarded(health), methods=["POST"], name="Ping (POST)")
    app.add_api_route("/v1/models", _guarded(models), methods=["GET"], name="Models")
    app.add_api_route("/version", _guarded(version), methods=["GET"], name="Version")
