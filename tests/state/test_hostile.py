"""Hostile stream states through the handler: more than 10,000 mutations, no 5xx, no hang, no memory."""

from __future__ import annotations

import base64
import json
import random
import resource
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from mangum import Mangum

from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.settings import Settings
from tests.support.gateway import event
from tests.support.mutations import mutated

Json = dict[str, Any]
CHAT = "/v1/chat/completions/derender"
KEY = "0123456789abcdef0123456789abcdef"
TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }
]
SETUPS: list[tuple[str, Json, str]] = [
    ("qwen3", {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"},
     '<think>\nHmm, 漢字.\n</think>\n\nLet me see.\n<tool_call>\n{"name": "f", "arguments": {"a": "some \\"long\\" text here"}}\n</tool_call>'),
    ("qwen3.5", {"tool_call_parser": "qwen3_coder", "reasoning_parser": "qwen3"},
     "Thinking.\n</think>\n\n<tool_call>\n<function=f>\n<parameter=a>\nsome text\n</parameter>\n</function>\n</tool_call>"),
    ("deepseek", {"tool_call_parser": "deepseek_v31", "reasoning_parser": "deepseek_v3"},
     '<think>Hm</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "some text"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'),
    ("llama3", {"tool_call_parser": "llama3_json"}, '{"name": "f", "parameters": {"a": "some text that goes on"}}'),
    ("gpt-oss", {"tool_call_parser": "openai", "reasoning_parser": "openai_gptoss"},
     '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "text"}<|call|>'),
    ("qwen3", {}, "Plain text, 漢字 and 🫠 more."),
]  # fmt: skip
PER_SETUP = 2000


class Service:
    """One deployment, and the streams that are mutated."""

    def __init__(self, folder: Path, parsers: Json, keys: tuple[str, ...]) -> None:
        if "tool_call_parser" in parsers:
            parsers = {**parsers, "enable_auto_tool_choice": True}
        settings = Settings(
            model=str(folder), served_model_name=("m",), state_key=keys, state_signature="optional", **parsers
        )
        app = create_app(settings, DERENDER)
        self.handler = Mangum(app, lifespan="off")
        self.common: Json = {
            "stream": True,
            "prompt_token_ids": [1, 2, 3],
            "chat_request": {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS},
        }

    def call(self, chunk: Json, state: Any) -> tuple[int, Json]:
        body = json.dumps({**self.common, "generate_chunk": chunk, "stream_state": state})
        answer = self.handler(event(CHAT, body), None)
        return answer["statusCode"], json.loads(answer["body"])

    def states(self, ids: list[int]) -> list[tuple[Json, Json]]:
        """(chunk, state before it) all along an honest stream."""
        found: list[tuple[Json, Json]] = []
        state = None
        for number, token_id in enumerate(ids):
            finish = "stop" if number == len(ids) - 1 else None
            chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [token_id], "finish_reason": finish}]}
            if state is not None:
                found.append((chunk, state))
            status, answer = self.call(chunk, state)
            assert status == 200, answer
            state = answer["stream_state"]
        return found


@pytest.mark.parametrize("number", range(len(SETUPS)))
@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["unsigned", "signed"])
def test_no_mutation_gives_a_fault(models_dir: Path, tokenizer_of: Any, number: int, keys: tuple[str, ...]) -> None:
    family, parsers, text = SETUPS[number]
    service = Service(models_dir / family, parsers, keys)
    honest = service.states(tokenizer_of(family).encode(text, add_special_tokens=False))
    rng = random.Random(number)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    statuses: dict[int, int] = {}
    for _ in range(PER_SETUP // 2):
        chunk, state = rng.choice(honest)
        began = time.process_time()
        altered = mutated(rng, state)
        if keys and isinstance(altered, dict) and rng.random() < 0.5:
            altered.pop("signature", None)  # "optional": then everything else must hold by itself
        status, answer = service.call(chunk, altered)
        assert time.process_time() - began < 2, altered  # seconds of CPU
        assert status in (200, 400), (altered, answer)
        if status == 400:
            assert answer["error"]["message"]
        statuses[status] = statuses.get(status, 0) + 1
    assert statuses.get(400, 0) > PER_SETUP // 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 * before


def test_a_signed_state_with_any_byte_altered_is_refused_or_means_the_same(models_dir: Path, tokenizer_of: Any) -> None:
    family, parsers, text = SETUPS[0]
    service = Service(models_dir / family, parsers, (KEY,))
    honest = service.states(tokenizer_of(family).encode(text, add_special_tokens=False))
    chunk, state = honest[len(honest) * 2 // 3]
    _, expected = service.call(chunk, state)
    raw = json.dumps(state)
    for at in range(len(raw)):
        for new in ("0", "z", '"', "\\"):
            altered = raw[:at] + new + raw[at + 1 :]
            try:
                value = json.loads(altered)
            except ValueError:
                continue
            status, answer = service.call(chunk, value)
            if status == 200:
                assert answer["stream_state"] == expected["stream_state"]
                assert answer["chunk"]["choices"] == expected["chunk"]["choices"]
            else:
                assert status == 400


@pytest.mark.parametrize("size", [10_000, 1_000_000, 20_000_000])
def test_checkpoints_cannot_claim_memory(models_dir: Path, tokenizer_of: Any, size: int) -> None:
    family, parsers, text = SETUPS[0]
    service = Service(models_dir / family, parsers, ())
    chunk, state = service.states(tokenizer_of(family).encode(text, add_special_tokens=False)[:8])[-1]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bombs = [
        "z" + base64.urlsafe_b64encode(zlib.compress(b"[" * size, 9)).decode(),
        "z" + base64.urlsafe_b64encode(zlib.compress(b'[["' + b"a" * size + b'"]]', 9)).decode(),
        "z" + base64.urlsafe_b64encode(zlib.compress(b"[" + b"0," * (size // 2) + b"0]", 9)).decode(),
    ]
    for bomb in bombs:
        status, _ = service.call(chunk, {**state, "checkpoint": bomb})
        assert status == 400
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 * before
