"""The demos' servers: on fixed ports, and what stands in their way ends the demo with a line."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import NotStarted, running


def require_free(*ports: int) -> None:
    """End the demo where something listens on one of the ports."""
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                sys.exit(f"something else already listens on port {port}; stop it and try again")


@contextmanager
def started(name: str, port: int, command: list[str], log: Path | None = None, seconds: float = 60) -> Iterator[None]:
    """A server that is told its port, ended with the block; without a ``log`` its output is among the demo's."""
    require_free(port)
    try:
        with running([*command, "--port", str(port)], port, log=log, show=log is None, seconds=seconds):
            yield
    except NotStarted as exc:
        sys.exit(f"{name}: {exc}")


def wait_for_interrupt() -> None:
    """Returns at Ctrl-C."""
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        pass
