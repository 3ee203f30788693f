"""Servers as child processes on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(*command: str) -> Iterator[str]:
    """A server, given its port as the last argument, until the block ends: its base address."""
    port = free_port()
    running = subprocess.Popen(
        [sys.executable, *command, "--port", str(port)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            if running.poll() is not None or time.monotonic() > deadline:
                running.kill()
                output = running.communicate()[0].decode()
                raise RuntimeError(f"{' '.join(command)} did not start:\n{output}")
            time.sleep(0.05)
        yield url
    finally:
        running.terminate()
        running.communicate(timeout=20)


def service(model: Path, *options: str) -> list[str]:
    """The command of ``derender serve`` with hermes and qwen3."""
    parsers = ["--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", "--enable-auto-tool-choice"]
    return ["-m", "infra.cli", "serve", str(model), *parsers, *options]


def engine(model: Path, *options: str) -> list[str]:
    """The command of the scripted engine."""
    return ["examples/scripted_engine.py", "--model", str(model), *options]
