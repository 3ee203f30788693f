"""Chat rendering: the conversation that comes out, and what is answered beside it."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest

from core.errors import BadRequest, ModelNotFound
from core.render.chat import render_chat
from tests.render.conftest import HERMES, WEATHER, ModelOf, chat, prompt_text


def test_the_prompt_is_the_template_over_the_messages(model_of: ModelOf) -> None:
    model = model_of("qwen3")
    rendered = render_chat(model, chat("Hi"))
    assert prompt_text(model, rendered) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert rendered["sampling_params"]["max_tokens"] == model.limits.max_model_len - len(rendered["token_ids"])


def test_a_tool_result_and_reasoning_come_back_into_the_prompt(model_of: ModelOf) -> None:
    model = model_of("qwen3", **HERMES)
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "reasoning_content": "ask the tool", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "18C"}]},
    ]
    rendered = render_chat(model, {"messages": messages, "tools": [WEATHER]})
    text = prompt_text(model, rendered)
    assert "ask the tool" in text
    assert '{"city": "Paris"}' in text
    assert "<tool_response>\n18C" in text
    assert '"name": "get_weather"' in text
    assert rendered["parse_context"]["history_tool_call_cnt"] == 1
    assert rendered["parse_context"]["tool_choice"] == "auto"


def test_developer_messages_become_the_system_message_of_a_template_without_that_role(model_of: ModelOf) -> None:
    model = model_of("qwen3")
    messages = [
        {"role": "system", "content": "One."},
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": "Two."},
    ]
    assert prompt_text(model, render_chat(model, {"messages": messages})).startswith(
        "<|im_start|>system\nOne.\n\nTwo.<|im_end|>\n<|im_start|>user\nHi"
    )


def test_the_final_message_can_be_left_open(model_of: ModelOf) -> None:
    model = model_of("llama3")
    messages = [{"role": "user", "content": "A joke"}, {"role": "assistant", "content": "Why did"}]
    options = {"continue_final_message": True, "add_generation_prompt": False}
    text = prompt_text(model, render_chat(model, {"messages": messages, **options}))
    assert text.endswith("<|end_header_id|>\n\nWhy did")
    with pytest.raises(BadRequest, match="not compatible"):
        render_chat(model, {"messages": messages, "continue_final_message": True})


def test_template_arguments_of_the_request_win_over_those_of_the_deployment(model_of: ModelOf) -> None:
    model = model_of("qwen3", default_chat_template_kwargs={"enable_thinking": False, "kept": 1}, **HERMES)
    default = render_chat(model, chat())
    asked = render_chat(model, chat(chat_template_kwargs={"enable_thinking": True}))
    assert prompt_text(model, default).endswith("<think>\n\n</think>\n\n")
    assert default["reasoning_ended"] is True
    assert prompt_text(model, asked).endswith("assistant\n")
    assert asked["reasoning_ended"] is False
    expected = {"enable_thinking": True, "kept": 1, "cohere_format": "cmd4"}
    expected |= {"add_generation_prompt": True, "continue_final_message": False}
    assert asked["parse_context"]["chat_template_kwargs"] == expected
    assert asked["reasoning_parser_kwargs"] == {"chat_template_kwargs": expected}


def test_reasoning_effort_switches_thinking_off(model_of: ModelOf) -> None:
    model = model_of("qwen3", **HERMES)
    assert render_chat(model, chat(reasoning_effort="none"))["reasoning_ended"] is True
    assert render_chat(model, chat(reasoning_effort="low"))["reasoning_ended"] is False


@pytest.mark.parametrize(
    ("given", "own", "expected"),
    [("abc", "own", "chatcmpl-abc"), (None, "own", "chatcmpl-own"), ("", "own", "chatcmpl-")],
)
def test_the_callers_request_id_wins(model_of: ModelOf, given: str | None, own: str, expected: str) -> None:
    assert render_chat(model_of("qwen3"), chat(request_id=own), given)["request_id"] == expected


def test_request_ids_are_drawn_anew(model_of: ModelOf) -> None:
    ids = {render_chat(model_of("qwen3"), chat())["request_id"] for _ in range(5)}
    assert len(ids) == 5
    assert all(len(one) == len("chatcmpl-") + 16 for one in ids)


def test_fields_that_pass_through(model_of: ModelOf) -> None:
    fields = {"stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True, "priority": 3}
    rendered = render_chat(model_of("qwen3"), chat(cache_salt="s", model="qwen3", **fields))
    assert rendered["stream"] is True
    assert rendered["stream_options"] == {"include_usage": True, "continuous_usage_stats": False}
    assert (rendered["return_token_ids"], rendered["priority"], rendered["cache_salt"]) == (True, 3, "s")
    assert (rendered["model"], rendered["output_mode"]) == ("qwen3", "tokens")
    assert rendered["sampling_params"]["output_kind"] == 1
    assert render_chat(model_of("qwen3"), chat())["model"] is None


def test_transfer_parameters_are_hoisted_and_other_extras_stay(model_of: ModelOf) -> None:
    body = chat(kv_transfer_params={"a": 1}, ec_transfer_params={"b": 2}, vllm_xargs={"c": 3})
    rendered = render_chat(model_of("qwen3"), body)
    assert rendered["kv_transfer_params"] == {"a": 1}
    assert rendered["ec_transfer_params"] == {"b": 2}
    assert rendered["sampling_params"]["extra_args"] == {"c": 3}
    without = render_chat(model_of("qwen3"), chat(kv_transfer_params={"a": 1}))
    assert "extra_args" not in without["sampling_params"]


def test_the_body_stays_as_it_is(model_of: ModelOf) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": {"b": 1}}'}}
    body: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
            {"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [call]},
            {"role": "user", "content": "y"},
        ],
        "tools": [WEATHER],
        "kv_transfer_params": {"prompt_token_ids": [1, 2], "x": 1},
        "vllm_xargs": {"c": 3},
    }
    before = copy.deepcopy(body)
    first = render_chat(model_of("qwen3", **HERMES), body, "id")
    assert body == before
    assert render_chat(model_of("qwen3", **HERMES), body, "id") == first


def test_an_unknown_model_is_refused_before_anything_is_rendered(model_of: ModelOf) -> None:
    with pytest.raises(ModelNotFound, match=r"The model `other` does not exist. Valid aliases: qwen3\."):
        render_chat(model_of("qwen3"), chat(model="other", use_beam_search=True))


def test_beam_search_is_refused(model_of: ModelOf) -> None:
    with pytest.raises(BadRequest, match="Beam search is not supported by the render endpoint"):
        render_chat(model_of("qwen3"), chat(use_beam_search=True))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("auto", '"auto" tool choice requires --enable-auto-tool-choice'),
        ("required", 'tool_choice="required" requires --tool-call-parser'),
        ({"type": "function", "function": {"name": "get_weather"}}, 'tool_choice=function "get_weather" requires'),
    ],
)
def test_tool_choices_need_a_parser(model_of: ModelOf, choice: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        render_chat(model_of("qwen3"), chat(tools=[WEATHER], tool_choice=choice))


def test_tools_can_be_hidden_when_they_may_not_be_called(model_of: ModelOf) -> None:
    body = chat(tools=[WEATHER], tool_choice="none")
    shown = model_of("qwen3", **HERMES)
    hidden = model_of("qwen3", exclude_tools_when_tool_choice_none=True, **HERMES)
    assert "get_weather" in prompt_text(shown, render_chat(shown, body))
    assert "get_weather" not in prompt_text(hidden, render_chat(hidden, body))
    assert render_chat(hidden, body)["parse_context"]["tools"][0]["function"]["name"] == "get_weather"


def test_a_deployment_that_only_derenders_loads_no_rendering_code() -> None:
    code = "import sys, core.model; print([m for m in sys.modules if m.startswith(('vllm', 'jinja2', 'core.render'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
