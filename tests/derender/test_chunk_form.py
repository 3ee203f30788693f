"""``--chunk-form openai``: chunks for clients that pass them on, without nulls in deltas and with cached tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.derender.chat import derender_chat
from core.derender.completions import derender_completion
from core.derender.stream import derender_chat_stream, derender_completion_stream
from core.json import Json
from core.model import Model
from core.protocol.derender import (
    DerenderChatRequest,
    DerenderChatStreamRequest,
    DerenderCompletionRequest,
    DerenderCompletionStreamRequest,
)
from tests.support.models import load

TEXT = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 8}}
REQUEST: Json = {
    "model": "qwen3",
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
}
ModelOf = Callable[..., Model]


@pytest.fixture(scope="module")
def model_of(models_dir: Path) -> ModelOf:
    def get(form: str) -> Model:
        parsers = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True}
        return load(models_dir / "qwen3", chunk_form=form, **parsers)

    return get


def chat_chunks(model: Model) -> Iterator[Json]:
    state = None
    ids = model.tokenizer.encode(TEXT, add_special_tokens=False)
    for number, token_id in enumerate(ids):
        last = number == len(ids) - 1
        choice = {"index": 0, "token_ids": [token_id], "finish_reason": "stop" if last else None}
        body = {
            "stream": True,
            "generate_chunk": {"request_id": "r", "choices": [choice]},
            "stream_state": state,
            "chat_request": REQUEST,
            "prompt_token_ids": [1, 2],
        }
        answer = derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))
        state = answer["stream_state"]
        yield answer["chunk"]
    body = {**body, "generate_chunk": {"request_id": "r", "choices": [], "usage": USAGE}, "stream_state": state}
    yield derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))["chunk"]


def nulls(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(nulls, value.values()))
    return any(map(nulls, value)) if isinstance(value, list) else value is None


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return list(map(without_nulls, value)) if isinstance(value, list) else value


def test_deltas(model_of: ModelOf) -> None:
    plain, lean = list(chat_chunks(model_of("vllm"))), list(chat_chunks(model_of("openai")))
    deltas = [choice["delta"] for chunk in lean for choice in chunk["choices"]]
    assert any("tool_calls" in delta for delta in deltas)
    assert not any(map(nulls, deltas))
    assert any(nulls(choice["delta"]) for chunk in plain for choice in chunk["choices"])
    ids = {}
    for ours, theirs in zip(lean, plain, strict=True):
        for one, other in zip(ours["choices"], theirs["choices"], strict=True):
            expected = without_nulls(other["delta"])
            for call, same in zip(one["delta"].get("tool_calls", ()), expected.get("tool_calls", ()), strict=True):
                ids[call.pop("id", None)] = same.pop("id", None)  # drawn at random
            assert one["delta"] == expected
            assert {**one, "delta": 0} == {**other, "delta": 0}
    assert (None in ids, len(ids)) == (True, 2)


def test_cached_tokens(model_of: ModelOf) -> None:
    for form, details in (("vllm", None), ("openai", {"cached_tokens": 8})):
        model = model_of(form)
        usage = list(chat_chunks(model))[-1]["usage"]
        assert usage["prompt_tokens_details"] == details
        answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707]}], "usage": USAGE}
        chat = DerenderChatRequest.model_validate({"generate_response": answer, "chat_request": REQUEST})
        assert derender_chat(model, chat)["usage"]["prompt_tokens_details"] == details
        completion = DerenderCompletionRequest.model_validate({"generate_responses": [answer]})
        assert derender_completion(model, completion)["usage"]["prompt_tokens_details"] == details
        chunk = {"stream": True, "generate_chunk": {**answer, "choices": []}}
        streamed = derender_completion_stream(model, DerenderCompletionStreamRequest.model_validate(chunk))
        assert streamed["chunk"]["usage"]["prompt_tokens_details"] == details


def test_of_several_answers_the_cached_tokens_are_added_up(model_of: ModelOf) -> None:
    answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707]}], "usage": USAGE}
    other = {**answer, "usage": {"prompt_tokens": 3}}
    body = DerenderCompletionRequest.model_validate({"generate_responses": [answer, other, answer]})
    assert derender_completion(model_of("openai"), body)["usage"]["prompt_tokens_details"] == {"cached_tokens": 16}


def test_an_engine_that_counts_none(model_of: ModelOf) -> None:
    answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707]}]}
    body = DerenderChatRequest.model_validate({"generate_response": answer, "chat_request": REQUEST})
    assert derender_chat(model_of("openai"), body)["usage"]["prompt_tokens_details"] is None
