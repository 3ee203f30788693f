"""Hostile requests from honest ones: everything that is recorded for a deployment, altered in many ways.

Endless and repeatable: the same seed gives the same requests. Nothing is sent from here, but for the honest streams
whose states are altered afterwards.
"""

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.deployment import Deployment, Request
from tests.golden.corpus import Case, Json
from tests.golden.replay import JSON_HEADERS
from tests.support.mutations import mutate_json, mutated

CHAT, COMPLETIONS = "/v1/chat/completions/derender", "/v1/completions/derender"
PATHS = (CHAT, COMPLETIONS, "/v1/chat/completions/render", "/v1/completions/render", "/tokenize", "/detokenize")
_TEXTS = (
    "<think>",
    "</think>",
    "<tool_call>",
    '{"name": "',
    "\\",
    '"',
    "[",
    "{",
    "\n",
    " ",
    "\x00",
    "漢",
    "🫠",
    "é",
    "<|",
    "▁",
)
_NUMBERS = (0, -1, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, -(2**63), 10**30, 1.5, -0.0, 1e308)
_HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"content-type": "text/plain"},
    {"content-type": "application/json; charset=utf-16"},
    {"content-encoding": "gzip"},
    {"content-encoding": "br"},
    {"x-request-id": "\xff" * 50},
    {"x-request-id": "a" * 5000},
)

Base = tuple[str, Json]
"""(path, body) of an honest request."""


class Generator:
    """The requests for one deployment."""

    def __init__(self, deployment: Deployment, cases: list[Case], seed: int, streams: int = 6) -> None:
        self.rng = random.Random(seed)
        self.model: str = deployment.server["model"]
        self.bases: list[Base] = [(c["endpoint"], c["request"]) for c in cases if isinstance(c.get("request"), dict)]
        recorded = [case for case in cases if "stream" in case]
        self.steps: list[Base] = []
        for case in self.rng.sample(recorded, min(streams, len(recorded))):
            self.steps += list(_honest_steps(deployment, case))
        self.bases += [(path, _ordinary(path, self.model)) for path in PATHS]
        self.ids = sorted({i for _, body in [*self.bases, *self.steps] for i in _token_ids(body)}) or [1, 2, 3]

    def __iter__(self) -> Iterator[Request]:
        kinds: list[tuple[Callable[[], Request], int]] = [
            (self.altered, 40), (self.state, 25), (self.storm, 12), (self.spliced, 12), (self.bytes_, 8), (self.large, 1),
        ]  # fmt: skip
        makers, weights = [maker for maker, _ in kinds], [weight for _, weight in kinds]
        while True:
            yield self.rng.choices(makers, weights)[0]()

    def _base(self) -> Base:
        path, body = self.rng.choice(self.steps if self.steps and self.rng.random() < 0.4 else self.bases)
        return path, copy.deepcopy(body)

    def _request(self, kind: str, path: str, body: Json) -> Request:
        raw = json.dumps(body).encode()
        headers = dict(JSON_HEADERS)
        if self.rng.random() < 0.03:
            headers |= self.rng.choice(_HEADERS)
        elif self.rng.random() < 0.02:
            raw, headers = gzip.compress(raw, 1), {**headers, "content-encoding": "gzip"}
        return Request(kind, "POST", path, raw, headers)

    def altered(self) -> Request:
        """An honest request with one to three values inside it changed, taken away or doubled."""
        path, body = self._base()
        for _ in range(self.rng.randint(1, 3)):
            body = mutate_json(self.rng, body)
        return self._request("altered", path, body)

    def state(self) -> Request:
        """A chunk of an honest stream with its state altered, the checkpoint's inside included."""
        if not self.steps:
            return self.altered()
        path, body = self.rng.choice(self.steps)
        return self._request("state", path, {**body, "stream_state": mutated(self.rng, body["stream_state"])})

    def spliced(self) -> Request:
        """A value of one request in the place of a value of another; sometimes at another endpoint."""
        path, body = self._base()
        _, donor = self._base()
        places, gifts = list(_places(body)), list(_places(donor))
        for _ in range(self.rng.randint(1, 3)):
            holder, key = self.rng.choice(places)
            giver, gift = self.rng.choice(gifts)
            if isinstance(holder, dict) or key < len(holder):
                holder[key] = copy.deepcopy(giver[gift])
        return self._request("spliced", self.rng.choice(PATHS) if self.rng.random() < 0.2 else path, body)

    def storm(self) -> Request:
        """Tokens in an order that no model would write, whole or as one chunk: markers opened, never closed."""
        size = self.rng.choice((1, 5, 30, 200, 1000))
        few = [self.rng.choice(self.ids) for _ in range(self.rng.choice((1, 2, 5, 50)))]
        ids = [self.rng.choice(few) for _ in range(size)]
        if self.rng.random() < 0.1:
            ids[self.rng.randrange(size)] = self.rng.choice((0, 2**32 - 1, 151_935, 300_000, -1))
        finish = self.rng.choice(("stop", "length", None, "tool_calls"))
        path = self.rng.choice((CHAT, CHAT, COMPLETIONS))
        body = _ordinary(path, self.model)
        answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids, "finish_reason": finish}]}
        if self.rng.random() < 0.4:
            del body["generate_response"]
            body |= {"stream": True, "generate_chunk": answer, "stream_state": None}
        else:
            body["generate_response"] = answer
        return self._request("storm", path, body)

    def bytes_(self) -> Request:
        """The bytes of an honest request cut, altered or repeated; and JSON that only just is some."""
        path, body = self._base()
        raw = bytearray(json.dumps(body).encode())
        kind = self.rng.randrange(4)
        if kind == 0:
            raw = raw[: self.rng.randrange(len(raw))]
        elif kind == 1:
            for _ in range(self.rng.randint(1, 4)):
                raw[self.rng.randrange(len(raw))] = self.rng.randrange(256)
        elif kind == 2:
            at = self.rng.randrange(len(raw))
            raw[at:at] = raw[self.rng.randrange(len(raw)) :]
        else:
            depth = self.rng.choice((10, 200, 2000, 100_000))
            raw = bytearray(self.rng.choice((b"[", b'{"messages":', b'{"model":[', b"\xef\xbb\xbf{}")) * depth)
        return Request("bytes", "POST", path, bytes(raw), dict(JSON_HEADERS))

    def large(self) -> Request:
        """One text or list of a request made very long."""
        path, body = self._base()
        holder, key = self.rng.choice(list(_places(body)))
        unit: Any = self.rng.choice((*_TEXTS, *_NUMBERS))
        length = self.rng.choice((1_000, 10_000, 100_000))
        holder[key] = unit * length if isinstance(unit, str) else [unit] * length
        return self._request("large", path, body)


def _honest_steps(deployment: Deployment, case: Case) -> Iterator[Base]:
    """The calls of a recorded stream from the second on, each with the state that our service gave."""
    state: Json = None
    for chunk in case["stream"]["chunks"][:60]:
        body = {"stream": True, **case["stream"]["common"], "generate_chunk": chunk, "stream_state": state}
        request = Request("honest", "POST", case["endpoint"], json.dumps(body).encode(), dict(JSON_HEADERS))
        answer = deployment.send(request)
        if answer is None or answer[0] != 200:
            return
        if state is not None:
            yield case["endpoint"], body
        state = answer[1]["stream_state"]


def _ordinary(path: str, model: str) -> Json:
    messages = [{"role": "user", "content": "What is 2+2?"}]
    answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9906, 11, 1917], "finish_reason": "stop"}]}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    chat = {"model": model, "messages": messages, "tools": [tool], "max_tokens": 8}
    completion = {"model": model, "prompt": "Once upon", "max_tokens": 8}
    whole = {"generate_response": answer, "prompt_tokens": 3, "prompt_token_ids": [1, 2, 3]}
    bodies: dict[str, Json] = {
        CHAT: {**whole, "chat_request": chat},
        COMPLETIONS: {**whole, "completion_request": completion},
        "/v1/chat/completions/render": {**chat, "truncate_prompt_tokens": 16, "stream": True},
        "/v1/completions/render": {**completion, "truncate_prompt_tokens": 16, "echo": True},
        "/tokenize": {"model": model, "prompt": "Once upon", "return_token_strs": True},
        "/detokenize": {"model": model, "tokens": [9906, 11, 1917]},
    }
    return copy.deepcopy(bodies[path])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything inside a JSON value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _token_ids(value: Any) -> Iterator[int]:
    """The token ids that a body holds."""
    for holder, key in _places(value):
        if key in ("token_ids", "tokens", "prompt_token_ids") and isinstance(holder[key], list):
            yield from (one for one in holder[key] if type(one) is int and 0 <= one < 2**32)
