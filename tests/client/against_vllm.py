"""The client against vLLM's own render server, where one is installed.

    vllm launch render MODEL --served-model-name qwen3 --port P --tool-call-parser hermes \\
        --reasoning-parser qwen3 --enable-auto-tool-choice
    python -m tests.client.against_vllm http://127.0.0.1:P MODEL

MODEL is the qwen3 folder. Starts the scripted engine, and compares every
stream with the API page's way of doing it, on the same server. Not a part of
the test suite, which has no vLLM: ``test_vllm.py`` runs there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tests.client.calling import AsyncCaller, SyncCaller, normal, stream_by_hand
from tests.client.proxy import proxy
from tests.support import processes
from tests.support.streams import join

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
USAGE = {"include_usage": True}


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "qwen3", "messages": [{"role": "user", "content": text}], **fields}


REQUESTS = {
    "plain": chat("hello", chat_template_kwargs={"enable_thinking": False}),
    "reasoning": chat("why? think", stream_options=USAGE),
    "tool call": chat("weather in Paris", tools=TOOLS, stream_options=USAGE),
    "two choices": chat("Say something to me", n=2, stream_options=USAGE),
}
COMPLETION = {"model": "qwen3", "prompt": ["Hello", "One more"], "n": 2, "max_tokens": 9, "stream_options": USAGE}


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("render_url")
    arguments.add_argument("model", type=Path)
    options = arguments.parse_args()
    wrong = 0

    def report(name: str, good: bool, chunks: int, calls: int) -> None:
        nonlocal wrong
        wrong += not good
        print(f"{'ok   ' if good else 'WRONG'} {name}: {chunks} chunks, {calls} derender calls")

    engine_command = processes.engine(options.model, "--served-model-name", "qwen3")
    with processes.process(*engine_command) as engine, proxy(options.render_url) as server:
        for name, request in REQUESTS.items():
            expected = normal(stream_by_hand(options.render_url, engine, request))
            for caller in (SyncCaller, AsyncCaller):
                for settings in ({}, {"compress": True}):
                    for gather in ({}, {"gather_tokens": 8}, {"gather_tokens": 8, "gather_ms": 5}):
                        server.calls.clear()
                        with caller(server.url, engine, **settings) as client:
                            chunks = client.ask("stream_chat", request, **gather)
                        good = normal(chunks) == expected
                        label = f"{name}, {caller.__name__}, {settings or 'plain'}, {gather or 'single'}"
                        report(label, good, len(chunks), server.count("/derender"))
        for caller in (SyncCaller, AsyncCaller):
            with caller(server.url, engine, compress=True) as client:
                whole = client.ask("completion", COMPLETION)
                server.calls.clear()
                chunks = client.ask("stream_completion", COMPLETION, gather_tokens=4)
                good = all(join(chunks).choices[one["index"]].text == one["text"] for one in whole["choices"])
                good = good and chunks[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
                report(f"completions, {caller.__name__}", good, len(chunks), server.count("/derender"))
                message = client.ask("chat", REQUESTS["tool call"])["choices"][0]["message"]
                report(f"tool call in one, {caller.__name__}", bool(message["tool_calls"]), 0, 1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
