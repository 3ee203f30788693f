"""The relay function: an ASGI application, for a server behind the Lambda Web Adapter (``handlers.relay:app``).

Python's managed runtime cannot stream an answer; the adapter can, in front of
any HTTP server in the function.
"""

import os
import sys

from core.errors import ConfigurationError, Unavailable
from handlers.app import create_app
from handlers.fast_encoder import load_at_start
from handlers.settings import PREFIX, PREPARED, settings_from_environ
from handlers.slices import VARIABLE, choose

try:
    choose(os.environ.get(VARIABLE) or None)
    from handlers.relay_endpoints import relay_router  # after the choice: it imports vLLM

    _settings = settings_from_environ({f"{PREFIX}REQUEST_LOG": "all", **os.environ})
    if not _settings.engine_url:
        raise ConfigurationError(f"{PREFIX}ENGINE_URL must name at least one engine")
    # Loaded at import, which is Lambda's init phase; a request finds it ready.
    app = create_app(_settings, relay_router(_settings))
    _prepared = os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") in PREPARED
    load_at_start(app.state.loader, _settings, _prepared)
    if _prepared:
        from handlers.relay_warming import warm_relay  # an ordinary start loads what its first request needs

        warm_relay(app.state.loader.get())
except Unavailable as exc:
    sys.exit(f"derender: the model could not be loaded: this version would never be ready: {exc.reason}")
except ConfigurationError as exc:
    sys.exit(f"derender: {exc}")  # one line; the server would print its own way to here before it
