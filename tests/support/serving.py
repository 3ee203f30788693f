"""Real servers on loopback ports: the scripted engine and the relay, each on uvicorn in a thread of this process.

In a thread, so that a test can look at what the engine saw.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.support.servers import free_port

Asgi = Callable[..., Any]


class _Quiet(uvicorn.Server):
    """A server that leaves the signals of the process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def serving(app: Asgi, **options: Any) -> Iterator[str]:
    """A running server; its address. Options are uvicorn's."""
    with observed(app, **options) as (url, _):
        yield url


@contextmanager
def observed(app: Asgi, **options: Any) -> Iterator[tuple[str, uvicorn.Server]]:
    """The same, and the server itself."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    config = uvicorn.Config(app, log_level="critical", lifespan="auto", timeout_graceful_shutdown=1, **options)
    server = _Quiet(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < deadline, "the server did not start in time"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
    finally:
        server.should_exit = True
        thread.join(10)
        with contextlib.suppress(OSError):
            listener.close()


def free_address() -> str:
    """An address where nothing listens."""
    return f"http://127.0.0.1:{free_port()}"
