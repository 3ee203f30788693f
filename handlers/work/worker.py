"""The life of a work process: job after job, each within its CPU time."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import RequestError
from handlers.logs import frames_of
from handlers.work import frames
from handlers.work.tasks import Here

# A process ends after so many jobs, or where it has grown by so much: what leaks is given back.
MOST_JOBS = 1000
MOST_GROWTH = 256 * 1024 * 1024
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Reply:
    """What became of a job. ``fault`` is the kind and the frames of what was raised and is no refusal."""

    result: Any = None
    refused: RequestError | None = None
    fault: tuple[str, list[str]] | None = None
    last: bool = False


def work(sock: socket.socket, here: Here, deadline: float) -> None:
    """Do the jobs that come through ``sock`` until it closes.

    A job that takes more than ``deadline`` seconds of CPU time (0: any) ends
    the process, wherever it is: no code of ours has to come to a point where
    it looks at a clock.
    """
    sock.setblocking(True)
    sock.sendall(os.getpid().to_bytes(8, "big"))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    first = _resident()
    with asyncio.Runner() as runner:
        here = replace(here, run=runner.run)
        for number in range(1, MOST_JOBS + 1):
            try:
                frame = frames.receive(sock)
                signal.setitimer(signal.ITIMER_PROF, deadline)
                reply = _reply(frame, here)
                del frame
                last = number == MOST_JOBS or _resident() - first > MOST_GROWTH
                parts = _written(replace(reply, last=last))
                signal.setitimer(signal.ITIMER_PROF, 0)
                for part in parts:
                    sock.sendall(part)
            except (EOFError, ConnectionError):
                return
            if last:
                return


def _reply(frame: frames.Frame, here: Here) -> Reply:
    try:
        function, arguments = frame.load(here.model)
        return Reply(function(here, *arguments))
    except RequestError as exc:
        cause = exc.__cause__
        return Reply(refused=exc, fault=None if cause is None else _fault(cause))
    except BaseException as exc:
        return Reply(fault=_fault(exc))


def _written(reply: Reply) -> list[frames.Part]:
    try:
        return frames.write(reply)
    except Exception as exc:
        return frames.write(Reply(fault=_fault(exc), last=reply.last))


def _fault(error: BaseException) -> tuple[str, list[str]]:
    return type(error).__name__, frames_of(error.__traceback__)


def _resident() -> int:
    """Bytes of memory that the process has in use; 0 where nobody says."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
