"""``make demo-vllm``: a real vLLM engine on this CPU, the relay in front of it, and the OpenAI client.

The engine (port 8300) knows tokens only and has random weights, so what it
says means nothing; every step on the way is the real one. The relay is
``derender serve --engine-url`` (port 8301). Both end with the demo, or with
``--keep`` stay until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
from rich.console import Console
from rich.markup import escape

ROOT = Path(__file__).resolve().parents[2]
ENGINE, RELAY = "http://127.0.0.1:8300", "http://127.0.0.1:8301"
CONTEXT = "4096"
# vLLM takes half a minute on two cores, more when its modules are read for the first time.
START_SECONDS = 300
console = Console(highlight=False, soft_wrap=True)


@contextmanager
def running(name: str, url: str, command: list[str], log: Path) -> Iterator[None]:
    """A server as a child process, ready when its /health answers, ended with the block; its output goes to ``log``."""
    console.print(f"starting {name}; its log is {log.relative_to(ROOT)}")
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(url):
            if process.poll() is not None:
                sys.exit(f"{name} ended with status {process.returncode}; see {log}")
            if time.monotonic() > deadline:
                sys.exit(f"{name} did not become ready within {START_SECONDS} s; see {log}")
            time.sleep(0.5)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


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
    assert httpx.get(f"{ENGINE}/health", timeout=5).status_code == 200
    console.print("the engine is well")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--engine-python", default=str(ROOT / ".venv-vllm" / "bin" / "python"))
    arguments.add_argument("--keep", action="store_true", help="leave both servers running until Ctrl-C")
    options = arguments.parse_args()
    sys.path.insert(0, str(ROOT))
    from examples.vllm_engine.tiny_model import NAME, build_tiny_model

    folder = build_tiny_model()
    for url in (ENGINE, RELAY):
        if _answers(url):
            sys.exit(f"something else already answers on {url}; stop it and try again")
    engine = [options.engine_python, "examples/vllm_engine/serve.py", "--model", str(folder)]
    engine += ["--served-model-name", NAME, "--host", "127.0.0.1", "--port", "8300", "--load-format", "dummy"]
    engine += ["--tokens-only", "--enforce-eager", "--dtype", "float32", "--max-model-len", CONTEXT]
    relay = [sys.executable, "-m", "infra.cli", "serve", str(folder), "--served-model-name", NAME, "--port", "8301"]
    relay += ["--max-model-len", CONTEXT, "--engine-url", ENGINE]
    logs = folder.parent
    os.environ["PYTHONUNBUFFERED"] = "1"
    with (
        running("vLLM", ENGINE, engine, logs / "engine.log"),
        running("the relay", RELAY, relay, logs / "relay.log"),
    ):
        show(openai.OpenAI(base_url=f"{RELAY}/v1", api_key="none", timeout=120, max_retries=0), NAME)
        if options.keep:
            console.print(f"The relay is on {RELAY}, the engine on {ENGINE}; Ctrl-C stops both.")
            try:
                while True:
                    time.sleep(3600)
            except KeyboardInterrupt:
                pass


if __name__ == "__main__":
    main()
