"""The relay between two that may both be hostile: clients that send what they like, and an engine that breaks its protocol.

The engine is the scripted one on a real loopback port, as it is or with its answers altered on the way.
"""

import asyncio
import io
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.turns.packing import pack_ids
from tests.engine.generation import Engine
from tests.engine.model import Model
from tests.engine.script import DEFAULT_SCRIPT, Script
from tests.engine.server import create_app
from tests.fuzz.deployment import Deployment, Request, Tally
from tests.fuzz.generators import Base, Generator
from tests.golden.corpus import Json, Server
from tests.support.mutations import mutate_json
from tests.support.serving import serving

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
SERVER: Server = {
    "model": "qwen3",
    "tool_call_parser": "hermes",
    "enable_auto_tool_choice": True,
    "reasoning_parser": "qwen3",
    "engine_timeout": 20,
}
_GENERATE = "/inference/v1/generate"
_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
_CHAT: Json = {"model": "qwen3", "messages": [{"role": "user", "content": "Hello"}]}
_WEATHER: Json = {**_CHAT, "messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [_TOOL]}
_CARRYING: Json = {
    "role": "assistant",
    "content": "Hello!",
    "turn_state": {
        "kept": 0,
        "prompt_ids": pack_ids([151644, 872, 198]),
        "output_ids": pack_ids([9707, 0, 151645]),
        "state": {"version": 1, "config": "x", "chars": 3, "text": "0" * 32, "ids": "0" * 32},
    },
}
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
_BASES: list[Base] = [
    (CHAT, {**_CHAT, "max_tokens": 20}),
    (CHAT, {**_CHAT, "max_tokens": 20, "continue_from": {"policy": "append"}}),
    (CHAT, {**_WEATHER, "messages": [*_CHAT["messages"], _CARRYING, *_CHAT["messages"]], "continue_from": {}}),
    (CHAT, {**_CHAT, "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    (CHAT, {**_CHAT, "stream": True, "n": 3, "stop": ["help", "to"], "include_stop_str_in_output": True}),
    (CHAT, {**_CHAT, "logprobs": True, "top_logprobs": 2, "stream": True}),
    (CHAT, {**_WEATHER, "stream": True}),
    (CHAT, {**_WEATHER, "tool_choice": "required", "parallel_tool_calls": False}),
    (CHAT, {**_CHAT, "response_format": _SCHEMA, "logit_bias": {"5": 1.0}, "allowed_token_ids": [1, 2, 3]}),
    (COMPLETIONS, {"model": "qwen3", "prompt": ["Once", "upon"], "stream": True, "echo": True, "max_tokens": 9}),
    (COMPLETIONS, {"model": "qwen3", "prompt": [[9707, 1879], [9707]], "logprobs": 2, "stop": ["x"], "n": 2}),
    (COMPLETIONS, {"model": "qwen3", "prompt": "Once", "prompt_logprobs": 1, "max_tokens": 3, "min_tokens": 2}),
]


class RelayGenerator(Generator):
    """Requests for the relay's endpoints, honest ones at first and then altered."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.model = "qwen3"
        self.bases = list(_BASES)
        self.steps: list[Base] = []
        self.ids = [1, 2, 3]

    def __iter__(self) -> Iterator[Request]:
        for path, body in _BASES:
            yield self._request("relay honest", path, body)
        while True:
            yield self.one()

    def one(self) -> Request:
        """An altered request."""
        (maker,) = self.rng.choices((self.altered, self.spliced, self.bytes_), (80, 12, 8))
        request = maker()
        return replace(request, kind=f"relay {request.kind}")

    def honest(self) -> Request:
        """An honest request, for an engine that is not."""
        path, body = self.rng.choice(self.bases)
        return self._request("relay, hostile engine", path, body)


class HostileEngine:
    """The scripted engine with every answer altered once the seed says how; ``off`` leaves it alone."""

    def __init__(self, app: Any, seed: int) -> None:
        self._app = app
        self.rng = random.Random(seed)
        self.off = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.off or scope.get("path") != _GENERATE:
            await self._app(scope, receive, send)
            return
        messages: list[Any] = []

        async def keep(message: Any) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        start = messages[0]
        body = b"".join(message.get("body", b"") for message in messages[1:])
        if self.rng.random() < 0.05:
            start["status"] = self.rng.choice((200, 204, 302, 400, 401, 404, 413, 429, 500, 503))
        body = self._stream(body) if b"data:" in body else self._damaged(self._value(body))
        await send({**start, "headers": [(k, v) for k, v in start["headers"] if k.lower() != b"content-length"]})
        while body:
            size = self.rng.randint(1, len(body))
            await send({"type": "http.response.body", "body": body[:size], "more_body": True})
            body = body[size:]
            if self.rng.random() < 0.1:
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _stream(self, body: bytes) -> bytes:
        events = body.split(b"\n\n")
        for _ in range(self.rng.randint(1, 3)):
            at = self.rng.randrange(len(events))
            kind = self.rng.random()
            if kind < 0.6:
                events[at] = b"data: " + self._value(events[at].removeprefix(b"data: "))
            elif kind < 0.7:
                del events[at:]
                events.append(b"")
            elif kind < 0.8:
                events.insert(at, self.rng.choice(events))
            elif kind < 0.9:
                self.rng.shuffle(events)
            else:
                events[at] = self.rng.choice((b": comment", b"event: x", b"data:", b"data: {}", b"data: null", b"\xff"))
        return self._damaged(b"\n\n".join(events))

    def _value(self, raw: bytes) -> bytes:
        try:
            return json.dumps(mutate_json(self.rng, json.loads(raw))).encode("utf-8", "surrogatepass")
        except ValueError:
            return raw[: self.rng.randrange(len(raw) + 1)]

    def _damaged(self, body: bytes) -> bytes:
        if body and self.rng.random() < 0.15:
            raw = bytearray(body)
            raw[self.rng.randrange(len(raw))] = self.rng.randrange(256)
            return bytes(raw)
        return body


@contextmanager
def hostile_engine(models_dir: Path, seed: int) -> Iterator[tuple[HostileEngine, str]]:
    """The running engine and its address."""
    scripted = Engine(Model(models_dir / "qwen3"), Script(DEFAULT_SCRIPT), ["qwen3"], tokens_only=True)
    engine = HostileEngine(create_app(scripted), seed)
    with serving(engine) as url:
        yield engine, url


def attack(models_dir: Path, tally: Tally, count: int, seed: int, until: float = float("inf")) -> None:
    """Half of ``count`` requests hostile, to an honest engine; half honest, answered by a hostile one."""
    with hostile_engine(models_dir, seed) as (engine, url):
        for engine.off, wrong in ((True, wrong_with_honest_engine), (False, wrong_with_hostile_engine)):
            deployment = Deployment({**SERVER, "engine_url": [url]}, models_dir, tally, wrong)
            generator = RelayGenerator(seed)
            try:
                for request in islice(generator if engine.off else iter(generator.honest, None), count // 2):
                    with redirect_stdout(io.StringIO()):  # a line for each failure of the engine
                        deployment.send(request)
                    if time.monotonic() > until:
                        return
            finally:
                deployment.close()


def wrong_with_honest_engine(status: int, body: Json) -> str:
    """What is wrong with an answer whose request was hostile and whose engine is not."""
    return f"status {status}: {body}" if status >= 500 else _wrong_text(body)


def wrong_with_hostile_engine(status: int, body: Json) -> str:
    """What is wrong with an answer whose engine was hostile: its failures are 502 to 504, never a fault of ours."""
    if status >= 500 and _is_fault(body):
        return f"status {status}: {body}"
    return _wrong_text(body)


def _wrong_text(body: Json) -> str:
    """What is wrong with a stream: each event is JSON, an error has a message, and the end is never silent."""
    if not isinstance(body, str) or not body:
        return ""
    if not body.endswith("data: [DONE]\n\n"):
        return f"a stream without its end: {body[-200:]}"
    for event in body.removesuffix("data: [DONE]\n\n").split("\n\n"):
        if not event or event.startswith(":"):
            continue
        try:
            content = json.loads(event.removeprefix("data: "))
        except ValueError:
            return f"an event that is no JSON: {event[:200]}"
        if "error" in content and (_is_fault(content) or not content["error"].get("message")):
            return f"an error event: {event[:200]}"
    return ""


def _is_fault(body: Json) -> bool:
    """Whether an error is a fault of ours, and not one of the engine or of the model's output."""
    return not isinstance(body, dict) or body.get("error", {}).get("message") == "Internal server error"
