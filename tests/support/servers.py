"""Servers as child processes, ready when their ``/health`` answers: for tests, benchmarks, comparisons and demos."""

from __future__ import annotations

import http.client
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from infra.emulator.ports import free_port, free_ports

__all__ = ["NotStarted", "answers", "free_port", "free_ports", "running"]

_ROOT = Path(__file__).resolve().parents[2]
_POLL_SECONDS = 0.02
_SHOWN_BYTES = 2000


class NotStarted(RuntimeError):
    """A server ended, or did not become ready in time. Holds the last lines of its output, where that was kept."""


def answers(port: int, path: str = "/health") -> bool:
    """Whether ``path`` says 200 there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def running(
    command: Sequence[str | Path],
    port: int,
    *,
    seconds: float = 60,
    environ: Mapping[str, str] | None = None,
    folder: Path = _ROOT,
    log: Path | None = None,
    show: bool = False,
    health: str = "/health",
) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from the first 200 of ``health`` on ``port`` to the end of the block.

    Its output goes to the end of ``log``, or to this process's own with ``show``.

    Raises:
        NotStarted: within ``seconds``.
    """
    with log.open("ab") if log is not None else tempfile.TemporaryFile() as output:
        to = None if show else output
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=None if environ is None else dict(environ),
            stdout=to,
            stderr=to and subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + seconds
            while not answers(port, health):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise NotStarted(_why(command, process, log, output))
                time.sleep(_POLL_SECONDS)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _why(command: Sequence[str | Path], process: subprocess.Popen[bytes], log: Path | None, output: IO[bytes]) -> str:
    ended = process.poll()
    what = "did not become ready" if ended is None else f"ended with status {ended}"
    text = f"{' '.join(map(str, command))} {what}"
    if log is not None:
        return f"{text}; see {log}"
    output.seek(0)
    return f"{text}:\n{output.read()[-_SHOWN_BYTES:].decode(errors='replace')}"
