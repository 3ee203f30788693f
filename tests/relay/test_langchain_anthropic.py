"""LangChain's ChatAnthropic against the relay, with tools."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool

from tests.relay.conftest import MODEL, Setup


@tool
def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"14 degrees and rain in {city}"


@pytest.fixture(scope="module")
def model(parsed: Setup) -> Any:
    options: dict[str, Any] = {"model": MODEL, "base_url": parsed.url, "api_key": "none", "max_retries": 0}
    return ChatAnthropic(**options, max_tokens=200, thinking={"type": "disabled"})


def test_a_message(model: Any) -> None:
    answer = model.invoke("Hello there")
    assert answer.text == "Hello! How can I help you today?"
    assert answer.usage_metadata["output_tokens"] == 10
    assert answer.response_metadata["stop_reason"] == "end_turn"


def test_a_stream(model: Any) -> None:
    whole: Any = None
    for chunk in model.stream("Hello there"):
        assert isinstance(chunk, AIMessageChunk)
        whole = chunk if whole is None else whole + chunk
    assert whole.text == "Hello! How can I help you today?"
    assert whole.usage_metadata["output_tokens"] == 10


@pytest.mark.parametrize("streams", [False, True])
def test_a_tool(model: Any, streams: bool) -> None:
    bound = model.bind_tools([get_weather])
    messages: list[Any] = [HumanMessage("What is the weather in Paris?")]
    if streams:
        parts = list(bound.stream(messages))
        call = sum(parts[1:], parts[0])
    else:
        call = bound.invoke(messages)
    (asked,) = call.tool_calls
    assert (asked["name"], asked["args"]) == ("get_weather", {"city": "Paris"})
    messages += [call, ToolMessage(get_weather.invoke(asked["args"]), tool_call_id=asked["id"])]
    answer = bound.invoke(messages)
    assert answer.text == "The tool answered 14 degrees and rain in Paris, so take a light jacket."
