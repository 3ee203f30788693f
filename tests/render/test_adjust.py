"""What the deployment's parser makes of tool choices and response formats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import BadRequest
from core.render.chat import render_chat
from tests.render.conftest import HERMES, WEATHER, ModelOf, chat

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
TOOL_ONLY = {"tool_call_parser": "hermes", "enable_auto_tool_choice": True}


def structured(model: Any, **fields: Any) -> dict[str, Any]:
    found = render_chat(model, chat(**fields))["sampling_params"].get("structured_outputs") or {}
    return {name: value for name, value in found.items() if value not in (None, False)}


def test_formats_become_structured_outputs(model_of: ModelOf) -> None:
    model = model_of("qwen3")
    assert structured(model) == {}
    assert structured(model, response_format=FORMAT) == {"json": SCHEMA}
    assert structured(model, response_format={"type": "json_object"}) == {"json_object": True}
    assert structured(model, response_format={"type": "text"}) == {}
    assert structured(model, structured_outputs={"regex": "a+"}) == {"regex": "a+"}


def test_required_tools_constrain_the_output(model_of: ModelOf) -> None:
    found = structured(model_of("qwen3", **HERMES), tools=[WEATHER], tool_choice="required")
    assert list(found) == ["structural_tag"]
    assert "get_weather" in json.dumps(found)


def test_a_named_tool_constrains_the_output_to_itself(model_of: ModelOf) -> None:
    other = {"type": "function", "function": {"name": "other", "parameters": SCHEMA}}
    choice = {"type": "function", "function": {"name": "get_weather"}}
    found = json.dumps(structured(model_of("qwen3", **HERMES), tools=[WEATHER, other], tool_choice=choice))
    assert "get_weather" in found
    assert "other" not in found


def test_the_parser_asks_for_special_tokens_when_it_may_have_to_parse_calls(model_of: ModelOf) -> None:
    model = model_of("qwen3", **TOOL_ONLY)
    for choice, skipped in (("auto", False), ("none", True)):
        found = render_chat(model, chat(tools=[WEATHER], tool_choice=choice))["sampling_params"]
        assert found.get("skip_special_tokens", True) is skipped


def test_reasoning_ends_where_the_request_hides_it(model_of: ModelOf) -> None:
    assert render_chat(model_of("qwen3", **HERMES), chat())["reasoning_ended"] is False
    assert render_chat(model_of("qwen3", **HERMES), chat(include_reasoning=False))["reasoning_ended"] is True
    assert render_chat(model_of("qwen3"), chat())["reasoning_ended"] is None
    assert render_chat(model_of("qwen3", **TOOL_ONLY), chat())["reasoning_parser_kwargs"] is None


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "structural_tag", "format": {"type": "nothing"}}},
        {"structured_outputs": {"regex": "a", "choice": ["a"]}},
        {"structured_outputs": {}},
        {"structured_outputs": []},
        {"structured_outputs": {"structural_tag": ""}},
        {"tools": [{}], "tool_choice": {"type": "function", "function": {"name": "x"}}},
        {"tools": []},
        {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "other"}}},
        {"tool_choice": "required"},
    ],
)
def test_refusals(model_of: ModelOf, fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        render_chat(model_of("qwen3", **HERMES), chat(**fields))
