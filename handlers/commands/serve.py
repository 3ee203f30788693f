"""Running the service on uvicorn: the same application as in Lambda, all functions in one process."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn

from core.errors import ConfigurationError, Unavailable
from core.upstream.version import is_installed
from handlers.commands.draining_server import DrainingServer
from handlers.commands.guarded_protocol import Guard
from handlers.commands.workers import Workers, reserve
from handlers.loading import ModelLoader
from handlers.log_output import as_text
from handlers.log_queue import queued
from handlers.network import Network, bound_socket, network_from_environ
from handlers.prometheus import counting_together, forget_process
from handlers.settings import Settings, settings_from_environ


def serve(environ: Mapping[str, str]) -> int:
    """Load the model, then answer until interrupted.

    Raises:
        ConfigurationError: the settings, the address or the model cannot work, or there is no vLLM to parse with.
    """
    if not is_installed():
        raise ConfigurationError(
            "this installation has no vLLM parsers: build them with `make setup` in a checkout of derender, "
            "then install from there again"
        )
    network, rest = network_from_environ(environ)
    settings = settings_from_environ(rest)
    options = network.uvicorn_options()
    # First the address: who has it is known before the model is loaded.
    held = reserve(network) if network.workers > 1 else None
    alone = bound_socket(network) if held is None else None
    with counting_together(network.workers):
        return _serve(settings, network, held, alone, options)


def _serve(
    settings: Settings,
    network: Network,
    held: socket.socket | None,
    alone: socket.socket | None,
    options: Mapping[str, Any],
) -> int:
    # These import vLLM's types, which may be absent.
    from handlers.server import server_app
    from handlers.work.start import working

    began = time.perf_counter()
    app = server_app(settings, network)
    if settings.fast_encoder == "on":
        from handlers.fast_encoder import load_now  # late: as few servers do

        load_now(app.state.loader, required=True)
    print(
        f"derender: {settings.model} loaded in {time.perf_counter() - began:.2f} s, serving on {network.address}",
        file=sys.stderr,
        flush=True,
    )
    if not settings.api_key and not network.is_private:
        print(
            f"derender: there is no key (--api-key): whoever reaches {network.host} may use this server"
            + (" and its engines" if settings.engine_url else ""),
            file=sys.stderr,
            flush=True,
        )
    reason = _why_replayed(app.state.loader)
    if reason is not None:
        print(f"derender: streams are replayed, chunk by chunk: {reason}", file=sys.stderr, flush=True)

    def answer(bound: socket.socket, began: Callable[[], None] = lambda: None) -> None:
        guard = Guard(settings.header_timeout, settings.body_timeout, settings.max_connections)
        config = uvicorn.Config(app, log_level="error", lifespan="on", http=guard.protocol(), ws="none", **options)
        server = DrainingServer(config, app.state.drain, settings.drain_timeout, network.give_back)
        app.state.offloading.room.connections = lambda: len(server.server_state.connections)
        # First the processes: a fork of this one must find one thread.
        with working(app, settings), queued(as_text if settings.log_format == "text" else None):
            began()
            server.run([bound])

    if held is not None:
        return Workers(held, network.workers, answer, forget_process).run()
    assert alone is not None
    answer(alone)
    return 0


def _why_replayed(loader: ModelLoader) -> str | None:
    """Why the deployment's parser cannot be carried; None when it can, need not be, or the model is not there yet."""
    try:
        model = loader.get()
    except Unavailable:
        return None
    if model.chat_parser is None or model.options.stream_state != "checkpoint":
        return None
    return model.chat_parser.why_replayed()
