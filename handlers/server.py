"""The application of a server: the routes of all functions, in one process."""

from __future__ import annotations

from fastapi import FastAPI

from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.render_endpoints import RENDER
from handlers.settings import Settings


def server_app(settings: Settings) -> FastAPI:
    """Render and derender, and where an engine is configured the relay.

    Raises:
        ConfigurationError: the settings or the model cannot work.
    """
    routers = [DERENDER, RENDER]
    if settings.engine_url:
        from handlers.relay_endpoints import relay_router  # httpx: only a deployment with an engine has a use for it

        routers.append(relay_router(settings))
    return create_app(settings, *routers)
