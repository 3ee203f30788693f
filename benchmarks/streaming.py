"""Streaming derender through a parser, one token a chunk: time per chunk, total, and bytes each way.

Over HTTP on loopback, ours (``derender serve``) against the real ``vllm launch
render`` where a Python with vLLM 0.33.0 is named by ``DERENDER_VLLM_PYTHON``
(``DERENDER_VLLM_PYTHONPATH`` may add a folder to its path), both started here
and measured in one run; ours alone otherwise. vLLM replays, so a whole stream
takes it minutes: where that would be too long only its last chunks are timed,
with the state it would have made, and its total is left out.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from mangum import Mangum

from benchmarks.checkpoint import LENGTHS, SETUPS, TOOL, Setup, output
from benchmarks.setups import PATH_CHAT, ROOT, gateway_event, model_folder
from core.bundle.folder import FolderFiles
from core.tokenizer import load_tokenizer
from handlers.app import create_app
from handlers.settings import Settings

# vLLM's own total is measured for these lengths and setups; elsewhere only its last chunks.
VLLM_WHOLE = {64: None, 512: None, 1400: ("hermes + qwen3",)}
VLLM_LAST_LIMIT = {"llama3_json": 1400}
LAST = 20
REQUEST_ID = "chatcmpl-0123456789abcdef0123456789abcdef"
Json = dict[str, Any]


def run() -> list[Json]:
    """One row for each setup and length."""
    rows = []
    for setup in SETUPS:
        folder = model_folder(setup.model)
        tokenizer = load_tokenizer(FolderFiles(folder))
        prompt = tokenizer.encode(setup.prompt, add_special_tokens=False)
        ids = output(setup, tokenizer, max(LENGTHS))
        with _server(_ours(setup, str(folder))) as ours, _reference(setup, str(folder)) as vllm:
            for length in LENGTHS:
                ids = output(setup, tokenizer, length)[:length]
                row: Json = {"setup": setup.name, "tokens": length}
                row |= _measure(ours, prompt, ids, carry=False)
                carried = _measure(ours, prompt, ids, carry=True)
                row["carry_request_kb"] = carried["request_kb"]
                row["cpu_end_ms"] = _handler_cpu(setup, str(folder), prompt, ids)
                row |= _measure_vllm(vllm, setup, prompt, ids, row) if vllm else {}
                rows.append(row)
                print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, file=sys.stderr)
    return rows


# -- the streams ----------------------------------------------------------------------------------


def _bodies(prompt: Sequence[int], ids: Sequence[int], carry: bool) -> Iterator[Json]:
    """The request of each chunk, but for its state."""
    context = {
        "model": "m",
        "prompt_tokens": len(prompt),
        "prompt_token_ids": list(prompt),
        "chat_request": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]},
    }
    for number, token_id in enumerate(ids):
        last = number == len(ids) - 1
        choice = {"index": 0, "token_ids": [token_id], "finish_reason": "length" if last else None}
        body: Json = {"stream": True, "generate_chunk": {"request_id": REQUEST_ID, "choices": [choice]}}
        if not carry or number == 0:
            body |= context
        if carry and number == 0:
            body["carry_context"] = True
        yield body


class _Connection:
    """One kept-alive connection; counts bytes of bodies each way."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.sent = self.received = 0

    def post(self, body: Json) -> tuple[float, Json]:
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        began = time.perf_counter()
        self._http.request("POST", PATH_CHAT, raw, {"content-type": "application/json"})
        response = self._http.getresponse()
        text = response.read()
        took = time.perf_counter() - began
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {text[:400]!r}")
        self.sent, self.received = self.sent + len(raw), self.received + len(text)
        answer: Json = json.loads(text)
        return took, answer


def _measure(port: int, prompt: Sequence[int], ids: Sequence[int], carry: bool) -> Json:
    connection = _Connection(port)
    state, times = None, []
    for body in _bodies(prompt, ids, carry):
        took, answer = connection.post({**body, "stream_state": state})
        state = answer["stream_state"]
        times.append(took)
    early = times[44:64]
    return {
        "at_64_ms": median(early) * 1e3,
        "end_ms": median(times[-LAST:]) * 1e3,
        "growth": median(times[-LAST:]) / median(early),
        "total_s": sum(times),
        "request_kb": connection.sent / 1e3,
        "response_kb": connection.received / 1e3,
    }


def _measure_vllm(port: int, setup: Setup, prompt: Sequence[int], ids: Sequence[int], ours: Json) -> Json:
    """vLLM's last chunk (and total, where that is bearable) with ours as multiples."""
    whole = VLLM_WHOLE.get(len(ids), ())
    if whole is None or setup.name in whole:
        theirs = _measure(port, prompt, ids, carry=False)
        sent, received = theirs["request_kb"], theirs["response_kb"]
        return {
            "vllm_end_ms": theirs["end_ms"],
            "vllm_total_s": theirs["total_s"],
            "vllm_request_kb": sent,
            "last_ratio": theirs["end_ms"] / ours["end_ms"],
            "total_ratio": theirs["total_s"] / ours["total_s"],
            "bytes_ratio": (sent + received) / (ours["request_kb"] + ours["response_kb"]),
        }
    if len(ids) > VLLM_LAST_LIMIT.get(setup.name, max(LENGTHS)):
        return {}
    connection = _Connection(port)
    before = list(ids[:-1])
    state = {"output_token_ids": before, "output_chunk_lens": [1] * len(before), "role_sent": True}
    *_, last = _bodies(prompt, ids, carry=False)
    took = min(connection.post({**last, "stream_state": state})[0] for _ in range(3))
    return {"vllm_end_ms": took * 1e3, "last_ratio": took * 1e3 / ours["end_ms"]}


def _handler_cpu(setup: Setup, folder: str, prompt: Sequence[int], ids: Sequence[int]) -> float:
    """Milliseconds of CPU for one chunk at the end of the stream, in process, API Gateway event to response."""
    settings = Settings(model=folder, served_model_name=("m",), **_parsers(setup))
    handler = Mangum(create_app(settings, functions=("derender",)), lifespan="off")
    state, times = None, []
    for body in _bodies(prompt, ids, carry=False):
        event = gateway_event(PATH_CHAT, json.dumps({**body, "stream_state": state}))
        began = time.process_time()
        answer = handler(event, None)
        times.append(time.process_time() - began)
        state = json.loads(answer["body"])["stream_state"]
    return median(times[-LAST:]) * 1e3


# -- the servers ----------------------------------------------------------------------------------


def _parsers(setup: Setup) -> Json:
    return {"tool_call_parser": setup.tool, "reasoning_parser": setup.reasoning, "enable_auto_tool_choice": True}


def _flags(setup: Setup, folder: str, port: int) -> list[str]:
    flags = [folder, "--port", str(port), "--served-model-name", "m", "--enable-auto-tool-choice"]
    flags += ["--tool-call-parser", setup.tool]
    return [*flags, "--reasoning-parser", setup.reasoning] if setup.reasoning else flags


def _ours(setup: Setup, folder: str) -> tuple[list[str], Json, int]:
    port = _free_port()
    return [sys.executable, "-m", "infra.cli", "serve", *_flags(setup, folder, port)], {}, port


@contextmanager
def _reference(setup: Setup, folder: str) -> Iterator[int | None]:
    python = os.environ.get("DERENDER_VLLM_PYTHON")
    if not python:
        yield None
        return
    port = _free_port()
    command = [python, "-m", "vllm.entrypoints.cli.main", "launch", "render", *_flags(setup, folder, port)]
    environ = {"VLLM_TARGET_DEVICE": "cpu", "HF_HUB_OFFLINE": "1"}
    environ["PYTHONPATH"] = os.environ.get("DERENDER_VLLM_PYTHONPATH", "")
    with _server((command, environ, port)) as ready:
        yield ready


@contextmanager
def _server(start: tuple[list[str], Json, int]) -> Iterator[int]:
    command, environ, port = start
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environ}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 180
        while True:
            try:
                http_connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                http_connection.request("GET", "/health")
                if http_connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[:6]} did not start")
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
