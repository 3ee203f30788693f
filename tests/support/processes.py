"""The service and the scripted engine as child processes on loopback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import free_port, running

ROOT = Path(__file__).parents[2]


@contextmanager
def process(*command: str) -> Iterator[str]:
    """A server, given its port as the last argument, until the block ends: its base address."""
    with observed_process(*command) as (url, _):
        yield url


@contextmanager
def observed_process(*command: str) -> Iterator[tuple[str, int]]:
    """The same, and the process's id."""
    port = free_port()
    with running([sys.executable, *command, "--port", str(port)], port) as started:
        yield f"http://127.0.0.1:{port}", started.pid


def service(model: Path, *options: str) -> list[str]:
    """The command of ``derender serve`` with hermes and qwen3."""
    parsers = ["--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", "--enable-auto-tool-choice"]
    return ["-m", "handlers.commands", "serve", str(model), *parsers, *options]


def engine(model: Path, *options: str) -> list[str]:
    """The command of the scripted engine."""
    return ["examples/scripted_engine.py", "--model", str(model), *options]
