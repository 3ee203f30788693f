"""Any JSON in any field: an answer or a refusal, never a fault."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import RequestError, SchemaError
from handlers.responses import json_response
from tests.render.conftest import HARMONY, HERMES, WEATHER, ModelOf, chat

CALL = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
MESSAGES = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "t"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning": "r"},
    {"role": "tool", "tool_call_id": "c", "content": "18C"},
]
CHAT: dict[str, Any] = {
    "messages": MESSAGES,
    "tools": [WEATHER],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "chat_template_kwargs": {"enable_thinking": True},
    "kv_transfer_params": {"prompt_token_ids": [1, 2]},
    "stream_options": {"include_usage": True},
    "stream": True,
}
SETUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("qwen3", {"trust_request_chat_template": True}),
    "parser": ("qwen3", HERMES),
    "harmony": ("gpt-oss", HARMONY),
}

LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400])
    | st.sampled_from([0.5, -0.5, 1e308, -0.0, 1e-320])
    | st.sampled_from(["", "x", "auto", "none", "\x00", "\ud83c", "{{ 1/0 }}", "{% for", "required", "left", "é" * 50])
    | st.text(max_size=8)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "function", "name", "role", "content", "text", "json", "regex", "url", "a"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@cache
def field_names(kind: str) -> tuple[str, ...]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest
    from vllm.entrypoints.serve.tokenize.protocol import TokenizeChatRequest

    form = {"chat": ChatCompletionRequest, "completion": CompletionRequest, "tokenize": TokenizeChatRequest}[kind]
    return tuple(form.model_fields)


def places(value: Any) -> list[tuple[Any, ...]]:
    """The paths of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(key, *rest) for key, inner in items for rest in [(), *places(inner)]]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


def answers(render: Any, model: Any, body: Any) -> None:
    """Render and write the answer, or the refusal: both must be possible."""
    refused: RequestError | None = None
    try:
        response = json_response(render(model, body))
    except RequestError as exc:
        refused, response = exc, json_response(exc.body(), exc.status)
    assert response.status_code in (200, 400, 404)
    assert refused is None or (refused.message and len(response.body) < 100_000)


hostile = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("setup", SETUPS)
@given(data=st.data())
@hostile
def test_any_value_in_a_field_of_a_chat(model_of: ModelOf, setup: str, data: st.DataObject) -> None:
    from core.render.chat import render_chat

    name, options = SETUPS[setup]
    base = data.draw(st.sampled_from([CHAT, chat(), {"messages": MESSAGES}]))
    fields = data.draw(st.dictionaries(st.sampled_from(field_names("chat")), VALUES, max_size=2))
    answers(render_chat, model_of(name, **options), {**base, **fields})


@pytest.mark.parametrize("setup", SETUPS)
@given(data=st.data())
@hostile
def test_any_value_deep_inside_a_chat(model_of: ModelOf, setup: str, data: st.DataObject) -> None:
    from core.render.chat import render_chat

    name, options = SETUPS[setup]
    body = CHAT
    for _ in range(data.draw(st.integers(1, 2))):
        body = replaced(body, data.draw(st.sampled_from(places(body))), data.draw(VALUES))
    answers(render_chat, model_of(name, **options), body)


@given(data=st.data())
@hostile
def test_any_value_in_a_field_of_a_completion(model_of: ModelOf, data: st.DataObject) -> None:
    from core.render.completions import render_completion

    base = data.draw(st.sampled_from([{"prompt": "x"}, {"prompt": [[1], [2]]}, {"prompt": ["a", "b"], "echo": True}]))
    fields = data.draw(st.dictionaries(st.sampled_from(field_names("completion")), VALUES, max_size=2))
    answers(render_completion, model_of("qwen3"), {**base, **fields})


@pytest.mark.parametrize("setup", SETUPS)
@given(data=st.data())
@hostile
def test_any_value_in_a_field_of_tokenize(model_of: ModelOf, setup: str, data: st.DataObject) -> None:
    from core.render.tokenize import tokenize

    name, options = SETUPS[setup]
    names = (*field_names("tokenize"), "prompt", "kv_transfer_params", "echo")
    fields = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=2))
    base = data.draw(st.sampled_from([{"prompt": "x"}, {"messages": MESSAGES}]))
    answers(tokenize, model_of(name, **options), {**base, **fields})


@given(body=VALUES)
@hostile
def test_any_value_as_a_body(model_of: ModelOf, body: Any) -> None:
    from core.render.chat import render_chat
    from core.render.completions import render_completion
    from core.render.tokenize import tokenize

    for render in (render_chat, render_completion, tokenize):
        answers(render, model_of("qwen3"), body)


@given(raw=st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ud8001eE+-. ntf', max_size=30).map(str.encode))
@settings(max_examples=400, deadline=None)
def test_any_bytes(raw: bytes) -> None:
    from core.protocol.body import decode_body

    with suppress(SchemaError):
        decode_body(raw)
