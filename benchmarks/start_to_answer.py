"""How long is it from process start to the first answer under awslambdaric, as a multiple of a bare import?

The process is Lambda's own runtime client with our handler; this module
plays the Runtime API, hands it one event and takes the time until the answer.
The baseline is a Python process that does nothing but ``import fastapi,
mangum``. Peak memory is the process's high-water mark at the answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.harness.setups import PATH_CHAT, QWEN_TOOL_CHAT, ROOT, gateway_event, model_folder

ROUNDS = 9


def run() -> list[dict[str, Any]]:
    """One row for each of plain and hermes + qwen3."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "qwen3"
        command = [sys.executable, "-m", "handlers.commands", "bundle", str(model_folder("qwen3")), str(bundle)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        plain = {"DERENDER_MODEL": str(bundle), "DERENDER_SERVED_MODEL_NAME": "m"}
        parsers = {f"DERENDER_{name.upper()}": str(value).lower() for name, value in QWEN_TOOL_CHAT.items()}
        setups = {"plain": plain, "hermes + qwen3": {**plain, **parsers}}
        # One round warms the file system; then the setups take turns, and the best of each counts.
        bare: list[float] = []
        seconds: dict[str, list[float]] = {name: [] for name in setups}
        memory: dict[str, int] = {}
        for number in range(ROUNDS + 1):
            measured = _bare_import()
            if number:
                bare.append(measured)
            for name, settings in setups.items():
                took, peak = _first_answer(settings)
                if number:
                    seconds[name].append(took)
                    memory[name] = peak
    return [
        {
            "setup": name,
            "seconds": min(seconds[name]),
            "bare_seconds": min(bare),
            "ratio": min(seconds[name]) / min(bare),
            "peak_mb": memory[name] / 1024,
        }
        for name in setups
    ]


def _bare_import() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastapi, mangum"], check=True)
    return time.perf_counter() - began


def _first_answer(settings: dict[str, str]) -> tuple[float, int]:
    """Seconds from process start to the first answer, and the peak memory in KiB."""
    body = {
        "generate_response": {
            "request_id": "b",
            "choices": [{"index": 0, "token_ids": [9707, 1879], "finish_reason": "stop"}],
        },
        "chat_request": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    }
    server = _RuntimeApi(json.dumps(gateway_event(PATH_CHAT, json.dumps(body))).encode())
    environ = {**os.environ, **settings, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_port}"}
    environ |= {"LAMBDA_TASK_ROOT": str(ROOT), "AWS_LAMBDA_FUNCTION_NAME": "f", "PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "awslambdaric", "handlers.derender.handler"],
        env=environ,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    try:
        if not server.answered.wait(60):
            raise TimeoutError("the function did not answer within 60 s")
        took = server.answered_at - began
        peak = _peak_memory(process.pid)
    finally:
        process.kill()
        process.wait()
        server.shutdown()
        server.server_close()
    if json.loads(server.answer)["statusCode"] != 200:
        raise RuntimeError(server.answer.decode())
    return took, peak


def _peak_memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("no VmHWM in /proc")


class _RuntimeApi(ThreadingHTTPServer):
    """Lambda's Runtime API for one invocation; a second ask for work waits until the end."""

    daemon_threads = True

    def __init__(self, event: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.event = event
        self.answer = b""
        self.answered = threading.Event()
        self.answered_at = 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # the function is ended while its second request waits


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _RuntimeApi

    def do_GET(self) -> None:
        if self.server.answered.is_set():
            time.sleep(60)
        self.send_response(200)
        self.send_header("Lambda-Runtime-Aws-Request-Id", "00000000-0000-0000-0000-000000000000")
        self.send_header("Lambda-Runtime-Deadline-Ms", str(int(time.time() * 1000) + 60_000))
        self.send_header("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:f")
        self.send_header("Content-Type", "application/json")  # the client ends without a word if it is missing
        self.send_header("Content-Length", str(len(self.server.event)))
        self.end_headers()
        self.wfile.write(self.server.event)

    def do_POST(self) -> None:
        at = time.perf_counter()
        self.server.answer = self._body()
        self.server.answered_at = at
        self.server.answered.set()
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, format: str, *args: object) -> None:
        pass
