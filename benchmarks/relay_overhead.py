"""What does the relay add to a stream, against a bare proxy?

The same engine streams through both, and a client reads them to the end.
The engine plays back prepared events, one token each, as fast as they are
taken, so that what stands before it is what is measured. The proxy is the
least that can stand there: Starlette and httpx, bytes in, bytes out. Engine,
proxy, relay and client are processes of their own.

``added_us`` is how much longer a token takes through the relay than straight
from the engine, ``cpu_us`` the processor time of the relay itself for one,
``ratio`` its throughput as a part of the proxy's.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.harness.setups import QWEN_TOOL_CHAT, model_folder, tool_call_output
from tests.support.servers import free_port, running

TOKENS = 500
ROUNDS = 5
CONCURRENCIES = (1, 16)
# With this, text that one of these might begin in is looked for, though none ever comes.
STOP = ["\n\nHuman:", "###"]
SETUPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "plain, stop strings": ({}, {"stop": STOP}),
    "hermes + qwen3": (QWEN_TOOL_CHAT, {}),
}
_CLOCK = os.sysconf("SC_CLK_TCK")


def run() -> list[dict[str, Any]]:
    """One row for each setup and number of streams at once."""
    rows = []
    folder = model_folder("qwen3")
    with ExitStack() as stack:
        engine, _ = stack.enter_context(_process("engine"))
        proxy, _ = stack.enter_context(_process("proxy", engine))
        for name, (parsers, request) in SETUPS.items():
            with _process("relay", engine, str(folder), json.dumps(parsers)) as (relay, pid):
                body = {
                    "model": "m",
                    "messages": [{"role": "user", "content": "Write."}],
                    "stream": True,
                    "max_tokens": TOKENS,
                    **request,
                }
                for streams in CONCURRENCIES:
                    rows.append(
                        {"setup": name, "streams": streams, **_compare(engine, proxy, relay, pid, body, streams)}
                    )
    return rows


def _compare(engine: str, proxy: str, relay: str, pid: int, body: dict[str, Any], streams: int) -> dict[str, float]:
    generate, chat = "/inference/v1/generate", "/v1/chat/completions"
    calls = {"engine": (engine + generate, {}), "proxy": (proxy + generate, {}), "relay": (relay + chat, body)}
    for address, sent in calls.values():
        _read(address, sent)
    best = dict.fromkeys(calls, float("inf"))
    cpu = float("inf")
    for _ in range(ROUNDS):
        for name, (address, sent) in calls.items():
            used = _cpu_seconds(pid)
            best[name] = min(best[name], _read_many(address, sent, streams))
            if name == "relay":
                cpu = min(cpu, _cpu_seconds(pid) - used)
    tokens = TOKENS * streams
    return {
        "relay_tokens_per_s": tokens / best["relay"],
        "proxy_tokens_per_s": tokens / best["proxy"],
        "ratio": best["proxy"] / best["relay"],
        "added_us": (best["relay"] - best["engine"]) / tokens * 1e6,
        "cpu_us": cpu / tokens * 1e6,
    }


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK


def _read_many(address: str, body: dict[str, Any], streams: int) -> float:
    """Seconds until all streams were read to their end."""
    if streams == 1:
        began = time.perf_counter()
        _read(address, body)
        return time.perf_counter() - began
    threads = [threading.Thread(target=_read, args=(address, body)) for _ in range(streams)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def _read(address: str, body: dict[str, Any]) -> None:
    """Read one stream by hand: a client that costs next to nothing."""
    host, _, rest = address.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    content = json.dumps(body).encode()
    head = f"POST /{rest} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n"
    end = b""
    with socket.create_connection((name, int(port))) as connection:
        connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        while block := connection.recv(65536):
            end = (end + block)[-64:]
    assert b"[DONE]" in end, end


@contextmanager
def _process(*arguments: str) -> Iterator[tuple[str, int]]:
    """One of the servers; its address and process id."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.relay_overhead", str(port), *arguments]
    with running(command, port) as process:
        yield f"http://127.0.0.1:{port}", process.pid


# -- the servers ------------------------------------------------------------------------------------


def _events() -> list[bytes]:
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(model_folder("qwen3") / "tokenizer.json"))
    ids = tool_call_output(encoder, TOKENS)
    chunk = {"request_id": "generate-tokens-b", "usage": None, "output_mode": "tokens", "choices": [{}]}
    events = []
    for place, token_id in enumerate(ids, 1):
        choice = {
            "index": 0,
            "finish_reason": "length" if place == TOKENS else None,
            "stop_reason": None,
            "token_ids": [token_id],
            "routed_experts": None,
            "sampling_mask": None,
            "weight_versions": None,
            "logprobs": None,
        }
        events.append(b"data: " + json.dumps({**chunk, "choices": [choice]}, separators=(",", ":")).encode() + b"\n\n")
    return [*events, b"data: [DONE]\n\n"]


async def _healthy(request: Any) -> Any:
    from starlette.responses import Response

    return Response()


def _engine_app() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    events = _events()

    async def play() -> AsyncIterator[bytes]:
        for event in events:
            yield event

    async def generate(request: Request) -> Response:
        await request.body()
        return StreamingResponse(play(), media_type="text/event-stream")

    return Starlette(routes=[Route("/inference/v1/generate", generate, methods=["POST"]), Route("/health", _healthy)])


def _proxy_app(engine: str) -> Any:
    import httpx
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    client = httpx.AsyncClient(timeout=60, trust_env=False)

    async def generate(request: Request) -> Response:
        sent = client.build_request("POST", engine + request.url.path, content=await request.body())
        answer = await client.send(sent, stream=True)
        return StreamingResponse(answer.aiter_raw(), media_type="text/event-stream")

    return Starlette(routes=[Route("/inference/v1/generate", generate, methods=["POST"]), Route("/health", _healthy)])


def _relay_app(engine: str, folder: str, parsers: str) -> Any:
    from handlers.server import server_app
    from handlers.settings import Settings

    settings = Settings(model=folder, served_model_name=("m",), engine_url=(engine,), **json.loads(parsers))
    return server_app(settings)


def main() -> None:
    import uvicorn

    port, role, *rest = sys.argv[1:]
    app = {"engine": _engine_app, "proxy": _proxy_app, "relay": _relay_app}[role](*rest)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="critical", lifespan="off")


if __name__ == "__main__":
    main()
