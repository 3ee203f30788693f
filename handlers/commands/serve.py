"""Running the service on uvicorn: the same application as in Lambda, all functions in one process."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address

import uvicorn

from core.errors import ConfigurationError, Unavailable
from core.upstream.version import is_installed
from handlers.commands.draining_server import DrainingServer
from handlers.commands.guarded_protocol import Guard
from handlers.commands.workers import Workers, reserve
from handlers.loading import ModelLoader
from handlers.log_queue import queued
from handlers.settings import settings_from_environ


def serve(environ: Mapping[str, str], host: str, port: int, workers: int = 1) -> int:
    """Load the model, then answer until interrupted, in as many processes as there are ``workers``.

    Raises:
        ConfigurationError: the settings, the address or the model cannot work, or there is no vLLM to parse with.
    """
    if workers < 1:
        raise ConfigurationError(f"--workers must be at least 1, not {workers}")
    if not is_installed():
        raise ConfigurationError(
            "this installation has no vLLM parsers: build them with `make setup` in a checkout of derender, "
            "then install from there again"
        )
    # These import vLLM's types, which may be absent.
    from handlers.server import server_app
    from handlers.work.start import working

    settings = settings_from_environ(environ)
    held = reserve(host, port) if workers > 1 else None
    began = time.perf_counter()
    app = server_app(settings)
    print(
        f"derender: {settings.model} loaded in {time.perf_counter() - began:.2f} s, serving on http://{host}:{port}",
        file=sys.stderr,
        flush=True,
    )
    if not settings.api_key and not _is_loopback(host):
        print(
            f"derender: there is no key (--api-key): whoever reaches {host} may use this server"
            + (" and its engines" if settings.engine_url else ""),
            file=sys.stderr,
            flush=True,
        )
    reason = _why_replayed(app.state.loader)
    if reason is not None:
        print(f"derender: streams are replayed, chunk by chunk: {reason}", file=sys.stderr, flush=True)

    def answer(bound: socket.socket | None = None, began: Callable[[], None] = lambda: None) -> None:
        guard = Guard(settings.header_timeout, settings.body_timeout, settings.max_connections)
        config = uvicorn.Config(
            app, host=host, port=port, log_level="error", lifespan="on", http=guard.protocol(), ws="none"
        )
        server = DrainingServer(config, app.state.drain, settings.drain_timeout)
        app.state.offloading.room.connections = lambda: len(server.server_state.connections)
        # First the processes: a fork of this one must find one thread.
        with working(app, settings), queued():
            began()
            server.run(None if bound is None else [bound])

    if held is not None:
        return Workers(held, workers, answer).run()
    answer()
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False  # a name: of whatever


def _why_replayed(loader: ModelLoader) -> str | None:
    """Why the deployment's parser cannot be carried; None when it can, need not be, or the model is not there yet."""
    try:
        model = loader.get()
    except Unavailable:
        return None
    if model.chat_parser is None or model.options.stream_state != "checkpoint":
        return None
    return model.chat_parser.why_replayed()
