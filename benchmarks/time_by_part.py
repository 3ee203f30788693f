"""Where does the processor time of a call go: a chunk through a parser, a chat through render?

A sampling profiler: the process's own CPU clock interrupts it, and the
innermost frame that belongs to a known part takes the sample, so that C code
counts for what called it. Nothing is traced, so cheap functions do not look
dear. The handler is called as Lambda calls it: API Gateway event in, response
out; the bare row is Mangum and an empty FastAPI application with the same event.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import orjson
from fastapi import FastAPI, Request
from starlette.responses import Response

from benchmarks.harness.chats import chat
from benchmarks.harness.setups import (
    PATH_CHAT,
    PATH_RENDER,
    Handler,
    gateway_event,
    lambda_handler,
    model_folder,
    render_handler,
)
from benchmarks.harness.streams import SETUPS, chunk_bodies, output, parsers
from core.bundle.folder import FolderFiles
from core.tokenizer import load_tokenizer
from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.settings import Settings

SECONDS = 8.0
TOKENS = 1_400
_INTERVAL = 0.001
FRAMEWORK = "Mangum, FastAPI, Starlette, the event loop"
ANSWER = "building and writing the answer"
# The innermost frame whose file holds one of these words tells the part; the order settles doubts.
_CHUNK = (
    ("/core/parsing/checkpoint", "the checkpoint: unpack, restore, save, pack"),
    ("/core/state/", "the state: checks, fingerprint, window"),
    ("/vllm/parser", "vLLM's parser: its step on the text"),
    ("/vllm/tool_parsers", "vLLM's parser: its step on the text"),
    ("/vllm/reasoning", "vLLM's parser: its step on the text"),
    ("stream_processor", "vLLM's parser: its step on the text"),
    ("/partial_json_parser", "vLLM's parser: its step on the text"),
    ("/core/parsing/", "making the parser and its request"),
    ("/core/upstream/parsers", "making the parser and its request"),
    ("/core/upstream/", "reading and validating the request"),
    ("/core/text/", "detokenizing"),
    ("/core/tokenizer/", "detokenizing"),
    ("/handlers/responses", ANSWER),
    ("/core/protocol/json_text", ANSWER),
    ("/core/protocol/openai", ANSWER),
    ("/handlers/logs", "the request log"),
    ("/pydantic", "reading and validating the request"),
    ("/core/protocol/", "reading and validating the request"),
    ("/core/bounds", "reading and validating the request"),
    ("/handlers/body", "reading and validating the request"),
    ("/vllm/", "reading and validating the request"),
    ("/core/choice/", "the rest of ours"),
    ("/core/derender/", "the rest of ours"),
    ("/handlers/", "the rest of ours"),
    ("/mangum/", FRAMEWORK),
    ("/fastapi/", FRAMEWORK),
    ("/starlette/", FRAMEWORK),
    ("/asyncio/", FRAMEWORK),
)
_RENDER = (
    ("/core/tokenizer/", "encode: the tokenizers package"),
    ("/jinja2/", "the chat template"),
    ("<template>", "the chat template"),
    ("/core/render/template", "the chat template"),
    ("chat_template", "the chat template"),
    ("/vllm/renderers/", "reading messages as vLLM does"),
    ("/core/render/sampling", "sampling parameters"),
    ("sampling_params", "sampling parameters"),
    ("/core/upstream/requests", "reading and validating the request"),
    ("/core/protocol/body", "reading and validating the request"),
    ("/core/protocol/schema_error", "reading and validating the request"),
    ("/handlers/responses", ANSWER),
    ("/core/protocol/json_text", ANSWER),
    ("/core/render/generate_request", ANSWER),
    ("/handlers/logs", "the request log"),
    ("/handlers/body", "reading and validating the request"),
    ("/pydantic", "reading and validating the request"),
    ("/msgspec", "sampling parameters"),
    ("/vllm/", "vLLM's request types and checks"),
    ("/core/", "the rest of ours"),
    ("/handlers/", "the rest of ours"),
    ("/mangum/", FRAMEWORK),
    ("/fastapi/", FRAMEWORK),
    ("/starlette/", FRAMEWORK),
    ("/asyncio/", FRAMEWORK),
)
Json = dict[str, Any]
Parts = Sequence[tuple[str, str]]


def run() -> list[Json]:
    """For each kind of call its whole time, the bare application's, and the share of each part."""
    rows: list[Json] = []
    for name, parts, handler, events in (_chunks(), _renders()):
        bare = _bare_handler()
        per_call = _cpu_ms(handler, events)
        rows.append({"call": name, "part": "all", "cpu_ms": per_call, "share": 1.0})
        empty = _cpu_ms(bare, events)
        rows.append({"call": name, "part": "bare application", "cpu_ms": empty, "share": empty / per_call})
        shares = sampled(lambda: [handler(event, None) for event in events], parts)  # noqa: B023
        rows += [
            {"call": name, "part": part, "cpu_ms": share * per_call, "share": share}
            for part, share in sorted(shares.items(), key=lambda item: -item[1])
        ]
    return rows


def sampled(call: Callable[[], object], parts: Parts, seconds: float = SECONDS) -> dict[str, float]:
    """Shares of the CPU time of ``call``, called for about ``seconds``, by part; samples of no part are "other"."""
    counts: Counter[str] = Counter()

    def sample(number: int, frame: FrameType | None) -> None:
        counts[_part_of(frame, parts)] += 1

    before = signal.signal(signal.SIGPROF, sample)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL, _INTERVAL)
    try:
        while time.process_time() - began < seconds:
            call()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    total = sum(counts.values())
    return {part: count / total for part, count in counts.items()}


def _part_of(frame: FrameType | None, parts: Parts) -> str:
    while frame is not None:
        name = frame.f_code.co_filename
        for word, part in parts:
            if word in name:
                return part
        frame = frame.f_back
    return "other"


def _cpu_ms(handler: Handler, events: Sequence[Json], seconds: float = 2.0) -> float:
    """Milliseconds of CPU for a call, the best of some rounds."""
    best, until = float("inf"), time.process_time() + seconds
    while time.process_time() < until:
        began = time.process_time()
        for event in events:
            handler(event, None)
        best = min(best, (time.process_time() - began) / len(events))
    return best * 1e3


def _chunks() -> tuple[str, Parts, Handler, list[Json]]:
    """The last chunks of a stream, with the states that they follow on."""
    setup = SETUPS[0]
    folder = model_folder(setup.model)
    tokenizer = load_tokenizer(FolderFiles(folder))
    prompt = tokenizer.encode(setup.prompt, add_special_tokens=False)
    ids = output(setup, tokenizer, TOKENS)[:TOKENS]
    settings = Settings(model=str(folder), served_model_name=("m",), **parsers(setup))
    handler = lambda_handler(create_app(settings, DERENDER))
    state, events = None, []
    for body in chunk_bodies(prompt, ids, carry=False):
        event = gateway_event(PATH_CHAT, json.dumps({**body, "stream_state": state}))
        state = orjson.loads(handler(event, None)["body"])["stream_state"]
        events.append(event)
    return f"a chunk at token {TOKENS:,}, {setup.name}", _CHUNK, handler, events[-60:-10]


def _renders() -> tuple[str, Parts, Handler, list[Json]]:
    handler = render_handler(model_folder("qwen3"))
    events = [gateway_event(PATH_RENDER, json.dumps(chat(3_400, number))) for number in range(50)]
    for event in events:
        if handler(event, None)["statusCode"] != 200:
            raise RuntimeError("a chat was refused")
    return "render of a chat of 815 tokens", _RENDER, handler, events


def _bare_handler() -> Handler:
    app = FastAPI()

    async def echo(request: Request) -> Response:
        return Response(b'{"bytes":%d}' % len(await request.body()), media_type="application/json")

    for path in (PATH_CHAT, PATH_RENDER):
        app.add_api_route(path, echo, methods=["POST"])
    return lambda_handler(app)


if __name__ == "__main__":
    for row in run():
        print(f"{row['cpu_ms']:8.3f} ms {row['share']:6.1%}  {row['call']}: {row['part']}", file=sys.stdout)
