"""Several processes behind one port: they answer, are replaced, and end together."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.errors import ConfigurationError
from handlers.commands.workers import reserve
from handlers.network import Network
from tests.support.servers import free_port, running
from tests.support.waiting import wait_for

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@contextlib.contextmanager
def server(models_dir: Path, workers: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    command = [sys.executable, "-m", "handlers.commands", "serve", str(models_dir / "qwen3"), "--port", str(port)]
    with running([*command, "--served-model-name", "m", "--workers", str(workers)], port, seconds=120) as process:
        yield process, f"http://127.0.0.1:{port}"


def children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def render(url: str) -> Any:
    return httpx.post(f"{url}/v1/chat/completions/render", json=BODY, timeout=60).json()["token_ids"]


def served(pid: int) -> int:
    """Processor time of a process, in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_workers_answer_alike_are_replaced_and_end_together(models_dir: Path) -> None:
    with server(models_dir, 2) as (process, url):
        workers = children(process.pid)
        assert len(workers) == 2
        before = {pid: served(pid) for pid in workers}
        answers = [render(url) for _ in range(40)]
        assert all(answer == answers[0] for answer in answers)
        # Each connection goes to one of both: of 40 none goes to one of them once in 10^12 runs.
        assert all(served(pid) > before[pid] for pid in workers)
        victim = min(workers)
        os.kill(victim, signal.SIGKILL)
        assert wait_for(lambda: victim not in children(process.pid) and len(children(process.pid)) == 2)
        assert wait_for(lambda: _answers(url))
        again = children(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in again))


def test_workers_do_not_outlive_their_parent(models_dir: Path) -> None:
    with server(models_dir, 2) as (process, _):
        workers = children(process.pid)
        process.kill()
        process.wait()
        assert wait_for(lambda: not any(_runs(pid) for pid in workers))


def test_an_address_that_is_taken_is_told_at_once(models_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot share http://127.0.0.1:{port} between workers"):
            reserve(Network(port=port))


def _answers(url: str) -> bool:
    try:
        return bool(render(url))
    except httpx.HTTPError:
        return False


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
