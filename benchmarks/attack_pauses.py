"""How long do a server's health checks and running streams wait while one request attacks it?

One server with llama3 and llama3_json, a relay to the scripted engine, which
writes a token every 20 ms. For each attack a health check follows the other
without pause, and one relayed stream runs; the longest answer and the longest gap
between two tokens count, from the attack's first byte to its answer. Once with
work processes, once with none. The machine's own pauses are in the row "nothing".
"""

from __future__ import annotations

import gzip
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.harness.setups import model_folder
from core.bundle.folder import FolderFiles
from core.tokenizer import load_tokenizer
from tests.support.processes import engine, process

RENDER, DERENDER, RELAY = "/v1/chat/completions/render", "/v1/chat/completions/derender", "/v1/chat/completions"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
# Seconds in which an attack that is answered at once is still looked at.
LEAST = 1.0

Attack = tuple[str, str, bytes, dict[str, str]]


def run() -> list[dict[str, Any]]:
    """One row for each attack."""
    folder = model_folder("llama3")
    made = attacks(folder)
    rows: list[dict[str, Any]] = [{"attack": name, "body_kb": round(len(body) / 1024)} for name, _, body, _ in made]
    script = Path(tempfile.mkdtemp()) / "script.json"
    script.write_text(json.dumps({"rules": [{"match": "", "answer": "word " * 5_000}]}))
    for processes, label in ((2, ""), (0, "_alone")):
        served = ["--served-model-name", "m"]
        parser = ["--tool-call-parser", "llama3_json", "--enable-auto-tool-choice"]
        with process(
            *engine(folder, "--script", str(script), "--tokens-only", "--delay-ms", "20", *served)
        ) as engine_url:
            command = ["-m", "handlers.commands", "serve", str(folder), "--engine-url", engine_url, *parser, *served]
            with process(*command, "--work-processes", str(processes)) as url:
                for row, attack in zip(rows, made, strict=True):
                    row |= {key + label: value for key, value in _measured(url, attack).items()}
    return rows


def _measured(url: str, attack: Attack) -> dict[str, Any]:
    """The answer's status and seconds, and the longest waits in milliseconds."""
    over = threading.Event()
    waits = {"health_ms": 0.0, "stream_ms": 0.0}

    def health() -> None:
        connection = _connection(url)
        while not over.is_set():
            began = time.perf_counter()
            connection.request("GET", "/health")
            connection.getresponse().read()
            waits["health_ms"] = max(waits["health_ms"], time.perf_counter() - began)

    def stream() -> None:
        connection = _connection(url)
        body = {**CHAT, "model": "m", "stream": True, "max_tokens": 5_000}
        connection.request("POST", RELAY, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.readline()
        streaming.set()
        last = time.perf_counter()
        while not over.is_set() and answer.readline():
            now = time.perf_counter()
            waits["stream_ms"] = max(waits["stream_ms"], now - last)
            last = now
        connection.close()

    streaming = threading.Event()
    threads = [threading.Thread(target=one) for one in (health, stream)]
    for thread in threads:
        thread.start()
    streaming.wait(60)
    waits.update(health_ms=0.0, stream_ms=0.0)
    began = time.perf_counter()
    status = _sent(url, attack)
    seconds = time.perf_counter() - began
    time.sleep(max(LEAST - seconds, 0))
    over.set()
    for thread in threads:
        thread.join()
    return {
        "status": status,
        "seconds": round(seconds, 2),
        **{key: round(value * 1000) for key, value in waits.items()},
    }


def _sent(url: str, attack: Attack) -> int | str:
    _, path, body, headers = attack
    if not path:
        return ""
    connection = _connection(url)
    connection.request("POST", path, body, {"content-type": "application/json", **headers})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=600)


def attacks(folder: Path) -> list[Attack]:
    """Expensive requests, for the llama3 in ``folder`` under the name ``m``. The first sends nothing: the baseline."""
    tokenizer = load_tokenizer(FolderFiles(folder))
    half = next(number for number in range(1000) if tokenizer.decode([number]) == "\ufffd")
    asked = {**CHAT, "tools": [TOOL]}

    def one_shot(ids: list[int], **request: Any) -> dict[str, Any]:
        choice = {"index": 0, "token_ids": ids, "finish_reason": "stop"}
        answer = {"request_id": "r", "choices": [choice]}
        return {"generate_response": answer, "chat_request": {**asked, **request}}

    call = tokenizer.encode('{"name": "f", "parameters": {"a": "' + "x y " * 3_000, add_special_tokens=False)
    streamed = {"stream": True, "prompt_token_ids": [1], "chat_request": {**asked, "stream": True}}
    chunks = [{"request_id": "r", "choices": [{"index": 0, "token_ids": [one]}]} for one in call[:4_096]]
    state = {"output_token_ids": call[:6_000], "output_chunk_lens": [1] * len(call[:6_000]), "request_id": "r"}
    last = {"request_id": "r", "choices": [{"index": 0, "token_ids": [220]}]}
    plain: list[tuple[str, str, Any]] = [
        ("16,000 unfinished bytes", DERENDER, one_shot([half] * 16_000)),
        ("40,000 ids, 1,000 stop strings", DERENDER, one_shot([256] * 40_000, stop=[f"s{n}" for n in range(1000)])),
        ("4,096 gathered chunks", DERENDER, {**streamed, "generate_chunks": chunks}),
        ("a replay of 6,000 chunks", DERENDER, {**streamed, "generate_chunk": last, "stream_state": state}),
        (
            "render of 5 MB",
            RENDER,
            {"messages": [{"role": "user", "content": "7" * 5_000_000}], "truncate_prompt_tokens": 10},
        ),
        (
            "relay of 1 MB",
            RELAY,
            {"messages": [{"role": "user", "content": "7 " * 50_000}], "max_tokens": 1, "model": "m"},
        ),
    ]
    packed: list[tuple[str, str, Callable[[], bytes]]] = [
        (
            "5.4 million choices, packed",
            DERENDER,
            lambda: b'{"generate_response":{"choices":[' + b'{"index":0},' * 5_400_000,
        ),
        ("20 MB of digits to tokenize, packed", "/tokenize", lambda: b'{"prompt":"' + b"7" * 20_000_000 + b'"}'),
        ("10 million ids to detokenize, packed", "/detokenize", lambda: b'{"tokens":[' + b"7," * 10_000_000 + b"7]}"),
    ]
    return [
        ("nothing", "", b"", {}),
        *((name, path, json.dumps(body).encode(), {}) for name, path, body in plain),
        *((name, path, gzip.compress(make()), {"content-encoding": "gzip"}) for name, path, make in packed),
    ]
