"""Running the service on uvicorn: the same application as in Lambda, all functions in one process."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import uvicorn

from core.errors import ConfigurationError
from core.upstream.version import is_installed
from handlers.commands.draining_server import DrainingServer
from handlers.log_output import queued
from handlers.settings import settings_from_environ


def serve(environ: Mapping[str, str], host: str, port: int) -> int:
    """Load the model, then answer until interrupted.

    Raises:
        ConfigurationError: the settings or the model cannot work, or there is no vLLM to parse with.
    """
    if not is_installed():
        raise ConfigurationError(
            "this installation has no vLLM parsers: build them with `make setup` in a checkout of derender, "
            "then install from there again"
        )
    from handlers.server import server_app  # it imports vLLM's types, which may be absent

    settings = settings_from_environ(environ)
    began = time.perf_counter()
    app = server_app(settings)
    print(
        f"derender: {settings.model} loaded in {time.perf_counter() - began:.2f} s, serving on http://{host}:{port}",
        file=sys.stderr,
        flush=True,
    )
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", lifespan="on")
    with queued():
        DrainingServer(config, app.state.drain, settings.drain_timeout).run()
    return 0
