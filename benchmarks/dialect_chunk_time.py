"""What does a chunk of Messages or Responses cost beside one of a chat?

The same outputs, one token a chunk: a call of the endpoint as Lambda calls it
(API Gateway event in, response out), and within it the core's part, from the
bytes of a body to those of its answer, in which alone the dialects differ. CPU
time of one process; the dialects take turns, and each has its best of many
rounds, so that the ratios hold on a busy machine. ``kept`` is where the chunks
of a stream meet one process and the parser waits for the next one, ``restored``
where it comes back from its checkpoint.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.harness.setups import gateway_event, lambda_handler, model_folder
from benchmarks.harness.streams import SETUPS, TOOL, output, parsers
from core.choice.output import unreported
from core.dialects import DIALECTS
from core.kept import Kept
from core.model import Model
from core.protocol.derender import parse_derender
from core.protocol.json_text import json_bytes
from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.settings import Settings

NAMES = ("chat", "messages", "responses")
PATHS = {
    "chat": "/v1/chat/completions/derender",
    "messages": "/v1/messages/derender",
    "responses": "/v1/responses/derender",
}
# Where a stream is looked at: in its reasoning, and in the long argument of its call.
TOKENS = 1_400
PLACES = {"reasoning": TOKENS // 4, "call": TOKENS - 60}
CHUNKS = 40
SECONDS = 1.5
Json = dict[str, Any]
_TOOL: Json = {**TOOL}
_FUNCTION: Json = _TOOL["function"]
_USER = [{"role": "user", "content": "hi"}]
REQUESTS: dict[str, Json] = {
    "chat": {"chat_request": {"model": "m", "messages": _USER, "tools": [TOOL]}},
    "messages": {
        "messages_request": {
            "model": "m",
            "max_tokens": 4_000,
            "messages": _USER,
            "tools": [{"name": _FUNCTION["name"], "input_schema": _FUNCTION["parameters"]}],
        }
    },
    "responses": {"responses_request": {"model": "m", "input": _USER, "tools": [{"type": "function", **_FUNCTION}]}},
}
_DIALECTS = {dialect.name: dialect for dialect in DIALECTS}


def run() -> list[Json]:
    """A row for each setup, place and way: CPU milliseconds of a chat's chunk, and the others' multiples of it."""
    logging.disable(logging.CRITICAL)  # vLLM's parser for llama3_json writes a line for an escape that is cut
    rows = []
    for setup in SETUPS:
        app = create_app(
            Settings(model=str(model_folder(setup.model)), served_model_name=("m",), **parsers(setup)), DERENDER
        )
        handler, model = lambda_handler(app), app.state.loader.get()
        prompt = model.tokenizer.encode(setup.prompt, add_special_tokens=False)
        ids = output(setup, model.tokenizer, TOKENS)[:TOKENS]
        waiting = model.chat_parser.waiting
        for place, start in PLACES.items():
            if place == "reasoning" and not setup.reasoning:
                continue
            model.chat_parser.waiting = waiting
            found = {name: list(_bodies(model, name, prompt, ids, start)) for name in NAMES}
            events = {name: [gateway_event(PATHS[name], body.decode()) for body in found[name]] for name in NAMES}
            for way in ("kept", "restored"):
                model.chat_parser.waiting = waiting if way == "kept" else Kept(0)
                whole = _cpu_ms(events, lambda _, event: handler(event, None))  # noqa: B023
                inner = _cpu_ms(found, lambda name, body: call(model, name, body))  # noqa: B023
                rows.append(
                    {"setup": setup.name, "in": place, "parser": way, **_row("call", whole), **_row("core", inner)}
                )
    return rows


def _row(part: str, times: Json) -> Json:
    ratios = {f"{part}_{name}": times[name] / times["chat"] for name in NAMES[1:]}
    return {f"{part}_ms": times["chat"], **ratios}


def call(model: Model, name: str, body: bytes) -> bytes:
    """A call of a dialect's streaming derender, from bytes to bytes."""
    door = _DIALECTS[name].derendering()
    return json_bytes(door.derender_stream(model, parse_derender(body, *door.bodies()), unreported))


def _bodies(model: Model, name: str, prompt: list[int], ids: list[int], start: int) -> Iterator[bytes]:
    """The bodies of the chunks from token ``start`` on."""
    fixed = {"stream": True, "model": "m", "prompt_token_ids": prompt, **REQUESTS[name]}
    state: Json | None = None
    ahead = [ids[at : at + 100] for at in range(0, start, 100)]
    for number, piece in enumerate([*ahead, *([token] for token in ids[start : start + CHUNKS])]):
        chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": piece}]}
        body = json.dumps({**fixed, "generate_chunk": chunk, "stream_state": state}).encode()
        state = json.loads(call(model, name, body))["stream_state"]
        if number >= len(ahead):
            yield body


def _cpu_ms(calls: Mapping[str, Sequence[Any]], run_one: Callable[[str, Any], object]) -> dict[str, float]:
    """Milliseconds of CPU for a chunk, by dialect: the best of rounds in which they take turns."""
    best = dict.fromkeys(calls, float("inf"))
    until = time.process_time() + SECONDS
    while time.process_time() < until:
        for name, found in calls.items():
            began = time.process_time()
            for one in found:
                run_one(name, one)
            best[name] = min(best[name], (time.process_time() - began) / len(found) * 1e3)
    return best


if __name__ == "__main__":
    for row in run():
        told = " ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values())
        print(told, file=sys.stdout, flush=True)
