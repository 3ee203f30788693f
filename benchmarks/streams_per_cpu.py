"""How much does one CPU of the server do: how many streams and requests does a replica take?

The processor time of a server process, per token, chunk and request, says it
with less noise than a clock. The engine plays back prepared events as fast as
they are read; the clients are in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from benchmarks import relay_overhead
from benchmarks.harness.setups import ROOT, model_folder, tool_call_output
from tests.support.servers import free_port, running

# What an engine writes for one stream, and how busy a replica may be: the autoscaler's target.
TOKENS_PER_SECOND = 50
UTILIZATION = 0.6
STREAMS = 16
ROUNDS = 5
WORDS = "The harbour master kept a ledger of every ship that came in with the morning tide. "
PARSERS = ("--served-model-name", "m", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")


def run() -> list[dict[str, Any]]:
    """One row for each kind of work; ``streams`` is null for work that does not stream."""
    from tokenizers import Tokenizer

    folder = model_folder("qwen3")
    ids = tool_call_output(Tokenizer.from_file(str(folder / "tokenizer.json")), relay_overhead.TOKENS)
    chat = {"model": "m", "messages": [{"role": "user", "content": "Write."}], "stream": True, "max_tokens": len(ids)}
    long_chat = {"model": "m", "messages": [{"role": "user", "content": WORDS * 50}]}
    port = free_port()
    with relay_overhead._process("engine") as (engine, _):
        command = [
            str(ROOT / ".venv" / "bin" / "derender"),
            "serve",
            str(folder),
            *PARSERS,
            "--enable-auto-tool-choice",
        ]
        command += ["--engine-url", engine, "--port", str(port)]
        url = f"http://127.0.0.1:{port}"
        with running(command, port) as process, httpx.Client(base_url=url, timeout=60) as client:
            prompt = client.post("/v1/chat/completions/render", json=chat).json()["token_ids"]

            def cpu(work: Callable[[], object], units: int) -> float:
                """Milliseconds of the server for one unit, the best of some rounds."""
                work()
                best = float("inf")
                for _ in range(ROUNDS):
                    used = relay_overhead._cpu_seconds(process.pid)
                    work()
                    best = min(best, relay_overhead._cpu_seconds(process.pid) - used)
                return best / units * 1e3

            def stream(tokens: int) -> None:
                state = None
                for start in range(0, len(ids), tokens):
                    chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids[start : start + tokens]}]}
                    call: dict[str, Any] = {"stream": True, "generate_chunk": chunk, "stream_state": state}
                    if state is None:
                        call |= {"chat_request": chat, "prompt_token_ids": prompt, "carry_context": True}
                    state = client.post("/v1/chat/completions/derender", json=call).json()["stream_state"]

            def whole() -> None:
                answer = {"choices": [{"index": 0, "token_ids": ids}]}
                client.post("/v1/chat/completions/derender", json={"generate_response": answer, "chat_request": chat})

            def render() -> None:
                for _ in range(20):
                    client.post("/v1/chat/completions/render", json=long_chat).raise_for_status()

            def relayed() -> None:
                relay_overhead._read_many(f"{url}/v1/chat/completions", chat, STREAMS)

            return [
                _row("a relayed token", cpu(relayed, len(ids) * STREAMS), TOKENS_PER_SECOND),
                _row("a chunk of one token", cpu(lambda: stream(1), len(ids)), TOKENS_PER_SECOND),
                _row("a chunk of eight tokens", cpu(lambda: stream(8), -(-len(ids) // 8)), TOKENS_PER_SECOND / 8),
                _row(f"a whole answer of {len(ids)} tokens", cpu(lambda: [whole() for _ in range(20)], 20), None),
                _row("a render of some 800 tokens", cpu(render, 20), None),
            ]


def _row(work: str, milliseconds: float, rate: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"work": work, "cpu_ms": milliseconds, "per_second": 1e3 / milliseconds * UTILIZATION}
    row["streams"] = int(row["per_second"] / rate) if rate else None
    return row
