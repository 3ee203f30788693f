"""The application of a server: the routes of all functions, in one process."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from handlers.app import create_app
from handlers.blas import use_one_thread
from handlers.derender_endpoints import DERENDER
from handlers.logs import RequestLog
from handlers.metrics import OTHER
from handlers.network import Network
from handlers.prometheus import Prometheus
from handlers.readiness import Readiness
from handlers.render_endpoints import RENDER
from handlers.routing import Router
from handlers.settings import Settings
from handlers.tracing import Spans, Tracing
from handlers.traffic import Traffic
from handlers.web import FastAPI
from handlers.work.offload import Offloading

# What a page may read of an answer besides its body.
EXPOSED_HEADERS = ("retry-after", "x-request-id")
# What reading images takes: the extra ``images`` of the distribution.
_IMAGE_PACKAGES = ("PIL", "numpy", "blake3")


def server_app(settings: Settings, network: Network | None = None) -> FastAPI:
    """Render and derender, and where an engine is configured the relay; for pages of other origins as ``network`` says.

    Raises:
        ConfigurationError: the settings or the model cannot work.
    """
    routers = [DERENDER, _render_router()]
    if settings.engine_url:
        from handlers.relay_endpoints import relay_router  # httpx: only a deployment with an engine has a use for it

        routers.insert(0, relay_router(settings))  # of a path that two have, the first answers: counts are the relay's
    if settings.playground:
        from handlers.playground.endpoints import PLAYGROUND  # late: few servers show it

        routers.append(PLAYGROUND)
    asked = next((router.engine_answers for router in routers if router.engine_answers), None)
    routers.append(Readiness(asked if settings.ready_with_engine else None).router())
    prometheus = Prometheus(next((router.engines for router in routers if router.engines), None))
    routers.append(prometheus.router())
    tracing = Tracing(settings.otlp_traces_endpoint) if settings.otlp_traces_endpoint else None
    if tracing is not None:
        routers.append(Router(routes=(), encodes=False, close=tracing.close))
    offloading = Offloading(settings)
    app = create_app(settings, *routers, handler=offloading.handler, observer=prometheus)
    app.state.offloading = offloading
    if settings.docs:
        _add_docs(app)
    if tracing is not None:
        app.add_middleware(Spans, tracing=tracing, endpoints=frozenset(offloading.routes))
    app.add_middleware(Traffic, observer=prometheus, unrouted=_unrouted(app.state.request_log))
    if network is not None and network.allowed_origins:
        from starlette.middleware.cors import CORSMiddleware  # late: few servers are for pages of other origins

        # Added last, it is outermost: a browser's question before a request brings no key.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=network.allowed_origins,
            allow_methods=network.allowed_methods,
            allow_headers=network.allowed_headers,
            allow_credentials=network.allow_credentials,
            expose_headers=EXPOSED_HEADERS,
        )
    return app


def _add_docs(app: FastAPI) -> None:
    """A page of the endpoints. It loads its scripts from a public network of them, as vLLM's does."""

    async def docs(request: Request) -> Response:
        return get_swagger_ui_html(openapi_url="openapi.json", title="derender")

    app.add_route("/docs", docs, include_in_schema=False)


def _unrouted(log: RequestLog | None) -> Callable[[Scope, int, float], None]:
    """What writes the line of a request that no route answered."""

    def write(scope: Scope, status: int, seconds: float) -> None:
        if log is not None:
            log.request(Request(scope), OTHER, Response(status_code=status), seconds)

    return write


def _render_router() -> Router:
    """The render routes; with images where what reads them is installed."""
    if not all(find_spec(name) for name in _IMAGE_PACKAGES):
        return RENDER
    use_one_thread()
    from handlers.image_endpoints import RENDER_IMAGES  # late: numpy and Pillow are slow to load

    return RENDER_IMAGES
