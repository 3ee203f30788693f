"""LangChain's ChatOpenAI against the relay, with tools."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests.relay.conftest import MODEL, Setup


@tool
def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"14 degrees and rain in {city}"


@pytest.fixture(scope="module")
def model(parsed: Setup) -> ChatOpenAI:
    return ChatOpenAI(
        model=MODEL,
        base_url=f"{parsed.url}/v1",
        api_key="none",  # type: ignore[arg-type]
        max_retries=0,
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
        stream_usage=True,
    )


def test_a_chat(model: ChatOpenAI) -> None:
    answer = model.invoke("Hello there")
    assert answer.content == "Hello! How can I help you today?"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] == 10
    assert answer.response_metadata["finish_reason"] == "stop"


def test_a_stream(model: ChatOpenAI) -> None:
    chunks = list(model.stream("Hello there"))
    assert len(chunks) > 8
    assert "".join(str(chunk.content) for chunk in chunks) == "Hello! How can I help you today?"
    assert sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata) == 10


def test_stop_strings(model: ChatOpenAI) -> None:
    assert model.invoke("Hello there", stop=["help"]).content == "Hello! How can I "
    assert "".join(str(chunk.content) for chunk in model.stream("Hello there", stop=["help"])) == "Hello! How can I "


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_with_a_tool(model: ChatOpenAI, stream: bool) -> None:
    with_tools = model.bind_tools([get_weather])

    def ask(messages: list[Any]) -> Any:
        if not stream:
            return with_tools.invoke(messages)
        whole = None
        for chunk in with_tools.stream(messages):
            whole = chunk if whole is None else whole + chunk  # type: ignore[operator]
        return whole

    messages: list[Any] = [HumanMessage("What is the weather in Paris?")]
    answer = ask(messages)
    (call,) = answer.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Paris"})
    assert call["id"]
    messages += [answer, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    assert ask(messages).content == "The tool answered 14 degrees and rain in Paris, so take a light jacket."
