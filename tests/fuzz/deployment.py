"""One deployment under fire: the real application in this process, and what must hold for every request.

An answer below 500, in less than `CPU_SECONDS` of CPU time, with a message where it refuses. What does not hold is kept
as a `Fault` with the whole request, never swallowed.
"""

import base64
import gc
import json
import signal
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.application import InProcess, make_app
from tests.golden.corpus import Json, Server

CPU_SECONDS = 5.0
GROWTH_BYTES = 256 * 2**20
_WARM = 150  # requests before memory is looked at: lazy imports, regular expressions, memoised tables
_PAGE = 4096


Wrong = Callable[[int, Json], str]
"""What is wrong with an answer; nothing where it is right."""


class TookTooLong(BaseException):
    """No `Exception`: the application turns those into an answer."""


@dataclass(frozen=True)
class Request:
    """What is sent; `kind` names the generator."""

    kind: str
    method: str
    path: str
    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Fault:
    """A request that was not answered as it must be."""

    why: str
    server: Server
    request: Request

    def save(self, folder: Path) -> Path:
        """Write the request as JSON, its body in base64, and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        out = folder / f"{len(list(folder.iterdir())):04}.json"
        request = {**vars(self.request), "body": base64.b64encode(self.request.body).decode()}
        out.write_text(json.dumps({"why": self.why, "server": self.server, "request": request}))
        return out


@dataclass
class Tally:
    """What happened so far."""

    statuses: Counter[int] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    slowest: float = 0.0
    slowest_what: str = ""
    growth: int = 0

    @property
    def requests(self) -> int:
        return sum(self.kinds.values())


class Deployment:
    """The application of one server configuration; `send` checks every answer by what is `given`, or by `wrong`."""

    def __init__(self, server: Server, models_dir: Path, tally: Tally, given: Wrong | None = None) -> None:
        self.server = server
        self._wrong = given or wrong
        self.tally = tally
        self.app: Any = make_app(server, models_dir)
        self._process = InProcess(self.app)
        self._sent = 0
        self._settled: int | None = None

    def send(self, request: Request) -> tuple[int, Json] | None:
        """The answer, or None after a fault."""
        began = time.process_time()
        answer: tuple[int, Json] | None = None
        why = ""
        try:
            with _cpu_limit():
                answer = self._process.call(request.method, request.path, request.body, request.headers)
        except TookTooLong:
            why = f"more than {CPU_SECONDS} s of CPU"
            self._restart()
        except Exception as error:
            why = f"{type(error).__name__} left the application: {error}"
        took = time.process_time() - began
        if took > self.tally.slowest:
            self.tally.slowest, self.tally.slowest_what = took, f"{request.kind} {request.path} {self.server}"
        self.tally.kinds[request.kind] += 1
        if answer is not None:
            self.tally.statuses[answer[0]] += 1
            why = self._wrong(*answer)
            if not why and took > CPU_SECONDS:
                why = f"{took:.1f} s of CPU"
        if why:
            self.tally.faults.append(Fault(why, self.server, request))
            return None
        self._watch_memory()
        return answer

    def seconds(self, request: Request) -> float:
        """CPU seconds of a request, without passes of the collector, which come where they like.

        And without a timer on CPU time, which makes the system's own clock coarse.
        """
        gc.disable()
        try:
            began = time.process_time()
            status, body = self._process.call(request.method, request.path, request.body, request.headers)
            took = time.process_time() - began
        finally:
            gc.enable()
        self.tally.kinds[request.kind] += 1
        self.tally.statuses[status] += 1
        if why := self._wrong(status, body):
            self.tally.faults.append(Fault(why, self.server, request))
        return took

    def peak(self, request: Request) -> int:
        """Bytes that Python holds at most over a request that was sent before, above what it held."""
        tracemalloc.start()
        try:
            self._process.call_raw(request.method, request.path, request.body, request.headers)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def _watch_memory(self) -> None:
        self._sent += 1
        if self._sent == _WARM:
            self._settled = resident_bytes()
        elif self._settled is not None and self._sent % 50 == 0:
            self.tally.growth = max(self.tally.growth, resident_bytes() - self._settled)

    def _restart(self) -> None:
        """A new event loop: the old one was broken off in the middle, and may not be able to end in order."""
        with suppress(Exception):
            self._process.close()
        self._process = InProcess(self.app)

    def close(self) -> None:
        self._process.close()


def wrong(status: int, body: Json) -> str:
    """What is wrong with an answer, nothing where it is right: below 500, and every refusal says why."""
    if status >= 500:
        return f"status {status}: {body}"
    if status >= 400 and not (isinstance(body, dict) and (body.get("error", {}).get("message") or body.get("detail"))):
        return f"status {status} without a message: {str(body)[:200]}"
    return ""


@contextmanager
def _cpu_limit() -> Iterator[None]:
    """Raise `TookTooLong` after `CPU_SECONDS` of this process's CPU; only a main thread can be stopped so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def resident_bytes() -> int:
    """The memory that this process has now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0
