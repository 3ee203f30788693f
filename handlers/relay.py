"""The relay function: an ASGI application, for a server behind the Lambda Web Adapter (``handlers.relay:app``).

Python's managed runtime cannot stream an answer; the adapter can, in front of
any HTTP server in the function.
"""

import os
import sys

from core.errors import ConfigurationError
from handlers.app import create_app
from handlers.settings import PREFIX, settings_from_environ

try:
    _settings = settings_from_environ({f"{PREFIX}REQUEST_LOG": "all", **os.environ})
    if not _settings.engine_url:
        raise ConfigurationError(f"{PREFIX}ENGINE_URL must name at least one engine")
    # Loaded at import, which is Lambda's init phase; a request finds it ready.
    app = create_app(_settings, functions=("relay",))
except ConfigurationError as exc:
    sys.exit(f"derender: {exc}")  # one line; the server would print its own way to here before it
