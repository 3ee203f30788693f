"""How long does a built function take from its first event to its answer, and where does the time go?

It runs under the emulator.
The emulator starts the function when the first event comes, so the time is
that of Lambda's init phase and the first request together. "prepared" is the
first request of a function that loaded everything beforehand, as SnapStart's
snapshot does: what remains is the restore, which only AWS can show. The relay
is a server behind a stand-in for its adapter; its first answer is that of a
scripted engine, whole.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from benchmarks.harness.lambda_functions import Built, built_functions, started
from benchmarks.harness.setups import PATH_CHAT, gateway_event
from infra.emulator import Runtime

ROUNDS = 9
_RENDER = "/v1/chat/completions/render"
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
EVENTS = {
    "render": gateway_event(_RENDER, json.dumps(CHAT)),
    "derender": gateway_event(
        PATH_CHAT,
        json.dumps(
            {
                "generate_response": {
                    "request_id": "b",
                    "choices": [{"index": 0, "token_ids": [9707, 1879], "finish_reason": "stop"}],
                },
                "chat_request": CHAT,
            }
        ),
    ),
    "relay": gateway_event("/v1/chat/completions", json.dumps({**CHAT, "max_tokens": 20})),
}
# Phases of a start, in the function's own process. Modules are loaded one after the other, so each has its own cost.
_PROFILE = """
import time
began = time.perf_counter()
laps = {}
def lap(name):
    global began
    now = time.perf_counter()
    laps[name] = now - began
    began = time.perf_counter()
import json, os, sys
sys.path.insert(0, os.getcwd())
import awslambdaric.bootstrap
lap("Lambda's runtime client")
import pydantic, pydantic_core
pydantic.BaseModel
lap("pydantic")
import fastapi, mangum
from fastapi import FastAPI
lap("FastAPI, Starlette, Mangum")
import handlers.app, handlers.invocation
lap("our modules")
name = sys.argv[1]
if name == "derender":
    import handlers.derender_endpoints
else:
    import handlers.render_endpoints
lap("the endpoints' modules and types")
import core.parsing.chat_parser
lap("vLLM's parser modules")
from handlers.settings import settings_from_environ
from handlers.loading import ModelLoader
loader = ModelLoader(settings_from_environ())
model = loader.get()
lap("the model: configuration, tokenizer, parser")
entry = __import__("handlers." + name, fromlist=["handler"])
lap("the application, and the model once more from warm files")
event = json.load(open(sys.argv[2]))
answer = entry.handler(event, None)
assert answer["statusCode"] == 200, answer
lap("the first request")
print(json.dumps(laps))
"""
_PREPARED = """
import json, os, sys, time
sys.path.insert(0, os.getcwd())
entry = __import__("handlers." + sys.argv[1], fromlist=["handler"])
event = json.load(open(sys.argv[2]))
began = time.perf_counter()
answer = entry.handler(event, None)
print(json.dumps(time.perf_counter() - began))
"""


def run() -> list[dict[str, Any]]:
    """One row for each function; the bare one is the first."""
    with built_functions(with_relay=True) as (runtime, functions):
        seconds: dict[str, list[float]] = {built.name: [] for built in functions}
        for number in range(ROUNDS + 1):  # the first round warms the file system; then they take turns
            for built in functions:
                took = _first_answer(runtime, built)
                if number:
                    seconds[built.name].append(took)
        bare = min(seconds[functions[0].name])
        return [
            {
                "function": built.name,
                "unzipped_mb": built.unzipped / 1e6,
                "seconds": min(seconds[built.name]),
                "ratio": min(seconds[built.name]) / bare,
                "prepared_ms": "" if built.is_server or built is functions[0] else _prepared(runtime, built) * 1000,
            }
            for built in functions
        ]


def profile(rounds: int = 5) -> dict[str, dict[str, float]]:
    """Milliseconds of each phase of a start, by function: the best of some rounds."""
    found: dict[str, dict[str, float]] = {}
    with built_functions() as (runtime, functions):
        for built in functions[1:]:
            best: dict[str, float] = {}
            for _ in range(rounds):
                for name, value in json.loads(_in_process(runtime, built, _PROFILE)).items():
                    best[name] = min(best.get(name, float("inf")), value * 1000)
            found[built.name] = best
    return found


def _first_answer(runtime: Runtime, built: Built) -> float:
    event = EVENTS.get(built.name, EVENTS["derender"])
    with started(runtime, built) as emulator:
        began = time.perf_counter()
        answer = emulator.invoke(event)
        took = time.perf_counter() - began
    if answer["statusCode"] != 200:
        raise RuntimeError(answer["body"])
    return took


def _prepared(runtime: Runtime, built: Built) -> float:
    return min(
        float(_in_process(runtime, built, _PREPARED, AWS_LAMBDA_INITIALIZATION_TYPE="snap-start")) for _ in range(5)
    )


def _in_process(runtime: Runtime, built: Built, code: str, **more: str) -> str:
    """Run code as the function's process; its last line."""
    path = built.folder.parent / f"event-{built.name}.json"
    path.write_text(json.dumps(EVENTS[built.name]))
    environ = {"PYTHONPATH": str(runtime.packages), **built.settings, **more}
    command = [str(runtime.python), "-S", "-c", code, built.name, str(path)]
    done = subprocess.run(command, cwd=built.folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


if __name__ == "__main__":
    for function, phases in profile().items():
        print(f"{function}: {sum(phases.values()):.0f} ms")
        for name, value in phases.items():
            print(f"{value:8.1f}  {name}")
