"""``make demo-vllm``: a real vLLM engine on this CPU, the relay in front of it, and the OpenAI client.

The engine (port 8300) knows tokens only and has random weights, so what it
says means nothing; every step on the way is the real one. The relay is
``derender serve --engine-url`` (port 8301). Both end with the demo, or with
``--keep`` stay until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import openai
from rich.console import Console
from rich.markup import escape

from examples.processes import require_free, started, wait_for_interrupt
from tests.support.servers import answers

ROOT = Path(__file__).resolve().parents[2]
ENGINE_PORT, RELAY_PORT = 8300, 8301
ENGINE, RELAY = f"http://127.0.0.1:{ENGINE_PORT}", f"http://127.0.0.1:{RELAY_PORT}"
CONTEXT = "4096"
# vLLM takes half a minute on two cores, more when its modules are read for the first time.
START_SECONDS = 300
console = Console(highlight=False, soft_wrap=True)


def show(client: openai.OpenAI, model: str) -> None:
    """The steps of the demo, each with the real client."""
    messages: list[Any] = [{"role": "user", "content": "Say something."}]
    console.rule("[bold]A streamed chat")
    stream = client.chat.completions.create(
        model=model, messages=messages, max_tokens=24, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        for choice in chunk.choices:
            delta: Any = choice.delta
            console.print(escape(delta.content or getattr(delta, "reasoning", None) or ""), style="green", end="")
        if chunk.usage is not None:
            console.print(f"\n{chunk.usage.completion_tokens} tokens")

    console.rule("[bold]Two choices with log probabilities")
    answer = client.chat.completions.create(
        model=model, messages=messages, max_tokens=6, n=2, logprobs=True, top_logprobs=1
    )
    for one in answer.choices:
        content = one.logprobs.content if one.logprobs is not None else None
        for entry in content or ():
            console.print(f"{one.index}  {entry.logprob:8.3f}  {escape(repr(entry.token))}")

    console.rule("[bold]A stop string, which this engine cannot look for: the relay does, and ends its work")
    once: dict[str, Any] = {
        "model": model,
        "prompt": "Once",
        "max_tokens": 400,
        "seed": 7,
        "extra_body": {"ignore_eos": True},
    }
    text = client.completions.create(**once).choices[0].text
    stop = text[60:63]
    stopped = client.completions.create(**once, stop=[stop])
    assert text.startswith(stopped.choices[0].text)
    assert stopped.usage is not None
    console.print(f"stopped at {escape(repr(stop))} after {stopped.usage.completion_tokens} of 400 tokens")

    console.rule("[bold]An id outside the vocabulary: it would end this engine for everybody")
    try:
        client.completions.create(model=model, prompt=[151_936])
    except openai.BadRequestError as exc:
        console.print(escape(exc.message))
    assert answers(ENGINE_PORT)
    console.print("the engine is well")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--engine-python", default=str(ROOT / ".venv-vllm" / "bin" / "python"))
    arguments.add_argument("--keep", action="store_true", help="leave both servers running until Ctrl-C")
    options = arguments.parse_args()
    from examples.vllm_engine.tiny_model import NAME, build_tiny_model

    folder = build_tiny_model()
    require_free(ENGINE_PORT, RELAY_PORT)
    engine = [options.engine_python, "examples/vllm_engine/serve.py", "--model", str(folder)]
    engine += ["--served-model-name", NAME, "--host", "127.0.0.1", "--load-format", "dummy"]
    engine += ["--tokens-only", "--enforce-eager", "--dtype", "float32", "--max-model-len", CONTEXT]
    relay = [sys.executable, "-m", "handlers.commands", "serve", str(folder), "--served-model-name", NAME]
    relay += ["--max-model-len", CONTEXT, "--engine-url", ENGINE]
    logs = folder.parent
    os.environ["PYTHONUNBUFFERED"] = "1"
    for log in ("engine.log", "relay.log"):
        (logs / log).unlink(missing_ok=True)
    console.print(f"starting vLLM and the relay; their logs are in {logs.relative_to(ROOT)}")
    with (
        started("vLLM", ENGINE_PORT, engine, logs / "engine.log", START_SECONDS),
        started("the relay", RELAY_PORT, relay, logs / "relay.log"),
    ):
        show(openai.OpenAI(base_url=f"{RELAY}/v1", api_key="none", timeout=120, max_retries=0), NAME)
        if options.keep:
            console.print(f"The relay is on {RELAY}, the engine on {ENGINE}; Ctrl-C stops both.")
            wait_for_interrupt()


if __name__ == "__main__":
    main()
