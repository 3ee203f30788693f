"""One function under the emulator: started, invoked one event at a time, and ended.

The function's process sees what it would see in Lambda: its own files, the
runtime's packages, Lambda's variables and the settings that are given, no
HOME, and nothing of this machine's Python environment.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from infra.emulator.ports import free_ports
from infra.emulator.runtime import Runtime

_INVOCATIONS = "/2015-03-31/functions/function/invocations"
_START_SECONDS = 10.0
# Everything read-only but the folder for temporary files, as in Lambda. Mounts end with the process.
_READ_ONLY = (
    'mount --bind "$TMPDIR" "$TMPDIR" && mount --bind "$PWD" "$PWD" && mount -o remount,ro,bind "$PWD" '
    '&& mount -o remount,ro,bind / && exec "$@"'
)

_ADAPTER = Path(__file__).parent / "adapter" / "web_adapter.py"


class InvokeError(Exception):
    """The emulator answered with a function error, or not at all. Holds its words."""


class Emulator:
    """A built function, ready to be invoked.

    ``handler`` is what Lambda is told to call, or the script that starts a
    function which is a server. ``settings`` are the function's environment
    variables. With ``read_only``
    the function can write to ``temporary`` only; that needs the right to
    mount (``can_mount``).
    """

    def __init__(
        self,
        runtime: Runtime,
        folder: Path,
        handler: str,
        settings: Mapping[str, str],
        temporary: Path,
        *,
        read_only: bool = False,
        timeout: int = 30,
        log: IO[str] | None = None,
    ) -> None:
        self._lock = threading.Lock()  # two events at the same time crash the emulator
        self._timeout = timeout
        self.port, api_port, server_port = free_ports(3)
        environ = _environ(runtime, folder, temporary, timeout)
        if handler.endswith(".sh"):
            environ |= _served(runtime, handler, server_port)
            handler = f"{_ADAPTER.stem}.handler"
        environ |= settings
        command = [str(runtime.emulator), "--log-level", "error"]
        command += ["--runtime-interface-emulator-address", f"127.0.0.1:{self.port}"]
        command += ["--runtime-api-address", f"127.0.0.1:{api_port}"]
        # -S: Lambda does not have this machine's packages.
        command += [str(runtime.python), "-S", "-m", "awslambdaric", handler]
        if read_only:
            command = [*_unshare(), "sh", "-c", _READ_ONLY, "sh", *command]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            self._await_start()
        except BaseException:
            self.stop()
            raise

    def invoke(self, event: Any) -> Any:
        """Send one event and return the function's answer, parsed.

        Raises:
            InvokeError: the function failed or timed out, or the answer is larger than Lambda lets pass.
        """
        answer = self.invoke_raw(json.dumps(event).encode())
        if isinstance(answer, dict) and ("errorMessage" in answer or "errorType" in answer):
            raise InvokeError(json.dumps(answer))
        return answer

    def invoke_raw(self, event: bytes) -> Any:
        """Send one event as it is; a function error is returned like an answer."""
        with self._lock:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self._timeout + 15)
            try:
                connection.request("POST", _INVOCATIONS, event, {"Content-Type": "application/json"})
                text = connection.getresponse().read()
            except (OSError, http.client.HTTPException) as exc:
                raise InvokeError(f"the emulator ended or hangs: {exc!r}") from exc
            finally:
                connection.close()
        try:
            return json.loads(text)
        except ValueError:
            raise InvokeError(text.decode(errors="replace")) from None

    def stop(self) -> None:
        """End the emulator and the function, which has a process group of its own."""
        for pid in [*_descendants(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _await_start(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            if self._process.poll() is not None:
                raise InvokeError(f"the emulator ended with status {self._process.returncode}")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise InvokeError("the emulator did not start") from None
                time.sleep(0.005)


def can_mount() -> bool:
    """Whether this user may make the file system read-only for a process of its own."""
    try:
        probe = subprocess.run([*_unshare(), "true"], capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def _unshare() -> list[str]:
    return ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]


def _environ(runtime: Runtime, folder: Path, temporary: Path, timeout: int) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "TMPDIR": str(temporary),
        "PYTHONPATH": str(runtime.packages),
        "LAMBDA_TASK_ROOT": str(folder),
        "LAMBDA_RUNTIME_DIR": str(runtime.packages),
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "AWS_LAMBDA_FUNCTION_NAME": "derender-local",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(timeout),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def server_environment(runtime: Runtime, folder: Path, temporary: Path, port: int) -> dict[str, str]:
    """The environment of a function that is a server, to be run by its script, listening on ``port``."""
    return _environ(runtime, folder, temporary, 30) | _served(runtime, "", port)


def _served(runtime: Runtime, script: str, port: int) -> dict[str, str]:
    """What the Lambda Web Adapter's layer and template.yaml add to the environment of a function that is a server."""
    return {
        "PATH": f"{runtime.programs}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": f"{runtime.packages}:{_ADAPTER.parent}",
        "PYTHONDONTWRITEBYTECODE": "1",  # of the adapter, which lies in this project
        "WEB_ADAPTER_START": script,
        "AWS_LWA_PORT": str(port),
    }


def _descendants(pid: int) -> list[int]:
    """The processes below one, the youngest first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name before the last parenthesis may hold anything.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found[::-1]
