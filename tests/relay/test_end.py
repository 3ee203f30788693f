"""The end of a server, and of its standard output: what runs ends with an answer, and no line of the log stops one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from handlers.log_output import LogOutput
from handlers.log_queue import QueuedOutput
from tests.engine.generation import Engine
from tests.engine.server import create_app as create_engine_app
from tests.relay.conftest import MODEL
from tests.support.servers import answers, free_port
from tests.support.serving import serving

CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}


@contextlib.contextmanager
def server(models_dir: Path, *options: str, stdout: Any = subprocess.DEVNULL) -> Iterator[tuple[Any, str]]:
    """`derender serve` with its standard output where the test wants it."""
    port = free_port()
    command = [sys.executable, "-m", "handlers.commands", "serve", str(models_dir / MODEL), "--port", str(port)]
    process = subprocess.Popen([*command, "--served-model-name", MODEL, *options], stdout=stdout)
    try:
        deadline = time.monotonic() + 120
        while not answers(port):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def slow_engine(make_engine: Callable[..., Engine]) -> Iterator[tuple[Engine, str]]:
    """An engine that takes for ever: a minute before each token."""
    engine = make_engine(delay=60.0)
    with serving(create_engine_app(engine, None)) as url:
        yield engine, url


def test_what_runs_is_ended_with_an_error(models_dir: Path, slow_engine: tuple[Engine, str]) -> None:
    _, url = slow_engine
    options = ("--engine-url", url, "--drain-timeout", "1", "--sse-keep-alive-interval", "0.2")
    with (
        server(models_dir, *options) as (process, address),
        httpx.stream("POST", address + CHAT, json={**ASK, "stream": True}, timeout=120) as answer,
    ):
        lines = answer.iter_lines()
        assert next(line for line in lines if line) == ": keep-alive", "the stream has begun"
        process.send_signal(signal.SIGTERM)
        events = [line for line in lines if line.startswith("data: ")]
        assert "shutting down" in events[0]
        assert events[1:] == ["data: [DONE]"]
        assert process.wait(120) in (0, -signal.SIGTERM)


def test_a_second_signal_ends_at_once(models_dir: Path, slow_engine: tuple[Engine, str]) -> None:
    _, url = slow_engine
    options = ("--engine-url", url, "--drain-timeout", "3600", "--sse-keep-alive-interval", "0.2")
    with (
        server(models_dir, *options) as (process, address),
        httpx.stream("POST", address + CHAT, json={**ASK, "stream": True}, timeout=120) as answer,
    ):
        assert next(line for line in answer.iter_lines() if line) == ": keep-alive"
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(httpx.HTTPError):
            # Taken in: a server that is to end takes no more connections.
            while True:
                httpx.get(f"{address}/health")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) is not None


def test_a_full_disk_changes_no_answer(models_dir: Path) -> None:
    with open("/dev/full", "wb") as full, server(models_dir, "--request-log", "all", stdout=full) as (_, address):
        for _ in range(20):
            assert httpx.post(f"{address}/tokenize", json={"prompt": "a"}).status_code == 200


def test_a_pipe_that_nobody_reads_stops_no_request(models_dir: Path) -> None:
    reader, writer = os.pipe()
    try:
        with server(models_dir, "--request-log", "all", stdout=writer) as (_, address):
            # More than a pipe holds (64 KB), some 600 bytes a line.
            for _ in range(250):
                assert httpx.post(f"{address}/tokenize", json={"prompt": "a"}).status_code == 200
    finally:
        os.close(reader)
        os.close(writer)


def test_a_collector_that_is_gone(models_dir: Path) -> None:
    reader, writer = os.pipe()
    with server(models_dir, "--request-log", "all", stdout=writer) as (_, address):
        os.close(reader)
        os.close(writer)
        for _ in range(20):
            assert httpx.post(f"{address}/tokenize", json={"prompt": "a"}).status_code == 200


def test_lines_that_are_lost_are_counted_and_told() -> None:
    written: list[str] = []
    full = True

    def write(line: str) -> None:
        if full:
            raise OSError(28, "No space left on device")
        written.append(line)

    output = LogOutput(write)
    output.write("a\n")
    assert output.lost == 1
    queued = QueuedOutput(write)
    queued.write("b\n")
    while queued.lost < 1:
        time.sleep(0.001)
    full = False
    queued.write("c\n")
    queued.end()
    assert written[0] == "c\n"
    assert '"lost":1' in written[1]


def test_a_queue_that_is_full_waits_for_nobody() -> None:
    gate = threading.Event()

    def write(line: str) -> None:
        gate.wait()

    output = QueuedOutput(write, most=3)
    for _ in range(100):
        output.write("x\n")
    assert 95 <= output.lost <= 97
    gate.set()
