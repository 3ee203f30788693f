"""How long do warm invocations of the built functions take, and what would Lambda bill?

"round trip" is the emulator's, its own millisecond included, next to the bare
function with a body of the same size. "billed" is the function's own part:
reading the event, the handler, and writing the answer, as Lambda's runtime
client does them in the function's process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness.lambda_functions import Built, built_functions, started
from benchmarks.harness.setups import PATH_CHAT, gateway_event, model_folder, tool_call_output
from infra.emulator import Emulator, Runtime

TOKENS = 1000
_RENDER = "/v1/chat/completions/render"
_ROUNDS = 7
_EACH = 40
CHAT = {"model": "m", "messages": [{"role": "user", "content": "What is the weather in Paris?"}]}
TOOL = {"type": "function", "function": {"name": "write_file", "parameters": {"type": "object", "properties": {}}}}
STREAMED = {**CHAT, "stream": True, "tools": [TOOL]}

# Runs in the function's process: the stream as Lambda would see it, one event a call, its time without the emulator.
_STREAM = """
import json, os, sys, time
sys.path.insert(0, os.getcwd())
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller
from handlers.derender import handler
job = json.load(open(sys.argv[1]))
marshaller = LambdaMarshaller()
def stream(size):
    state, took, answered = None, [], 0
    for at in range(0, len(job["ids"]), size):
        ids = job["ids"][at : at + size]
        finish = "stop" if at + size >= len(job["ids"]) else None
        chunk = {"request_id": "s", "choices": [{"index": 0, "token_ids": ids, "finish_reason": finish}]}
        body = {**job["body"], "generate_chunk": chunk, "stream_state": state}
        if at:
            body["prompt_token_ids"] = None
        raw = json.dumps({**job["event"], "body": json.dumps(body)}).encode()
        began = time.perf_counter()
        answer = handler(marshaller.unmarshal_request(raw), None)
        out = marshaller.marshal_response(answer)[0]
        took.append((time.perf_counter() - began) * 1000)
        assert answer["statusCode"] == 200, answer["body"]
        state = json.loads(answer["body"])["stream_state"]
        answered += len(raw) + len(out)
    return took, answered
stream(len(job["ids"]))
best = {}
for _ in range(3):
    for size in job["sizes"]:
        took, moved = stream(size)
        kept = best.get(size)
        if kept is None or sum(took) < sum(kept[0]):
            best[size] = (took, moved)
print(json.dumps({size: best[size] for size in job["sizes"]}))
"""


def run() -> list[dict[str, Any]]:
    """One row for each kind of call."""
    encoder = _encoder()
    ids = tool_call_output(encoder, TOKENS)
    with built_functions() as (runtime, functions):
        bare, render, derender = functions
        with (
            started(runtime, bare) as bare_running,
            started(runtime, render) as render_running,
            started(runtime, derender) as derender_running,
        ):
            whole = {"generate_response": _response(ids[:100]), "chat_request": {**CHAT, "tools": [TOOL]}}
            calls: dict[str, tuple[Emulator, dict[str, Any]]] = {
                "render, a short chat": (render_running, gateway_event(_RENDER, json.dumps(CHAT))),
                "derender, 100 tokens": (derender_running, gateway_event(PATH_CHAT, json.dumps(whole))),
            }
            for at in (10, 500, TOKENS - 10):
                event = _middle_of_stream(derender_running, ids, at)
                calls[f"derender, the chunk of token {at}"] = (derender_running, event)
            return [_row(name, emulator, bare_running, event) for name, (emulator, event) in calls.items()]


def stream_costs(sizes: tuple[int, ...] = (1, 8, TOKENS)) -> dict[int, tuple[list[float], int]]:
    """Milliseconds of every call of one stream, and the bytes that went both ways, by tokens a call."""
    ids = tool_call_output(_encoder(), TOKENS)
    with built_functions() as (runtime, functions):
        derender = next(built for built in functions if built.name == "derender")
        found = json.loads(_in_process(runtime, derender, ids, sizes))
    return {int(size): (took, moved) for size, (took, moved) in found.items()}


def _in_process(runtime: Runtime, built: Built, ids: list[int], sizes: tuple[int, ...]) -> str:
    job = {
        "ids": ids,
        "sizes": sizes,
        "event": gateway_event(PATH_CHAT, ""),
        "body": {"stream": True, "chat_request": STREAMED, "prompt_token_ids": [1, 2, 3]},
    }
    path = Path(built.settings["DERENDER_MODEL"]).with_name("job.json")
    path.write_text(json.dumps(job))
    environ = {"PYTHONPATH": str(runtime.packages), **built.settings, "DERENDER_REQUEST_LOG": "errors"}
    command = [str(runtime.python), "-S", "-c", _STREAM, str(path)]
    done = subprocess.run(command, cwd=built.folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def _row(name: str, emulator: Emulator, bare: Emulator, event: dict[str, Any]) -> dict[str, Any]:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(_ROUNDS):
        ours.append(_round_trip(lambda: emulator.invoke(event)))
        theirs.append(_round_trip(lambda: bare.invoke(event)))
    return {
        "call": name,
        "event_kb": len(json.dumps(event)) / 1000,
        "round_trip_ms": min(ours),
        "bare_ms": min(theirs),
        "ratio": min(ours) / min(theirs),
    }


def _round_trip(call: Callable[[], Any]) -> float:
    """The median of some calls, in milliseconds."""
    took = []
    for _ in range(_EACH):
        began = time.perf_counter()
        answer = call()
        took.append((time.perf_counter() - began) * 1000)
        if answer["statusCode"] != 200:
            raise RuntimeError(answer["body"])
    return statistics.median(took)


def _middle_of_stream(emulator: Emulator, ids: list[int], at: int) -> dict[str, Any]:
    """The event of the chunk with token ``at``, its state included."""
    body: dict[str, Any] = {"stream": True, "chat_request": STREAMED, "prompt_token_ids": [1, 2, 3]}
    first = {**body, "generate_chunk": _chunk(ids[:at]), "stream_state": None}
    state = json.loads(emulator.invoke(gateway_event(PATH_CHAT, json.dumps(first)))["body"])["stream_state"]
    del body["prompt_token_ids"]
    following = {**body, "generate_chunk": _chunk(ids[at : at + 1]), "stream_state": state}
    return gateway_event(PATH_CHAT, json.dumps(following))


def _chunk(ids: list[int]) -> dict[str, Any]:
    return {"request_id": "s", "choices": [{"index": 0, "token_ids": ids, "finish_reason": None}]}


def _response(ids: list[int]) -> dict[str, Any]:
    return {"request_id": "r", "choices": [{"index": 0, "token_ids": ids, "finish_reason": "stop"}]}


def _encoder() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(model_folder("qwen3") / "tokenizer.json"))
