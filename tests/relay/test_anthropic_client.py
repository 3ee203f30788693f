"""Anthropic's official client against the relay, as it comes from the registry."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx
import pytest

from tests.relay.conftest import FAULTS, MODEL, Setup
from tests.support.waiting import wait_for

WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "Current weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
# qwen3's parser takes all that has no end of thinking in it for thinking, unless thinking is off.
NO_THINKING: Any = {"type": "disabled"}
HELLO = "Hello! How can I help you today?"
CUT = ("is cut", "breaks later", "reports an error later", "sends no json", "sends strange ids")


def client_of(setup: Setup, key: str = "none", **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=setup.url, api_key=key, max_retries=0, timeout=30, **options)


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def test_a_message(plain: Setup) -> None:
    message = client_of(plain).messages.create(model=MODEL, max_tokens=100, messages=user("Hello there"))
    assert message.id.startswith("chatcmpl-")
    assert (message.type, message.role, message.model) == ("message", "assistant", MODEL)
    (block,) = message.content
    assert (block.type, block.text) == ("text", HELLO)
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert message.usage.output_tokens == 10  # nine and the end of sequence
    counted = client_of(plain).messages.count_tokens(model=MODEL, messages=user("Hello there"))
    assert counted.input_tokens == message.usage.input_tokens


def test_the_events_of_a_stream(plain: Setup) -> None:
    events = list(
        client_of(plain).messages.create(model=MODEL, max_tokens=100, messages=user("Hello there"), stream=True)
    )
    kinds = [event.type for event in events]
    assert kinds == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * (len(events) - 5),
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    # An event for each token of the engine, as it came: nothing is collected.
    assert len(events) == 5 + 9
    assert "".join(event.delta.text for event in events if event.type == "content_block_delta") == HELLO


def test_the_stream_helper(parsed: Setup) -> None:
    """What the client puts together is the answer in one piece."""
    client = client_of(parsed)
    ask: dict[str, Any] = {"model": MODEL, "max_tokens": 200, "messages": user("Why is the sky blue?")}
    with client.messages.stream(**ask) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    whole = client.messages.create(**ask)
    thinking, answer = final.content
    assert (thinking.type, answer.type) == ("thinking", "text")
    assert "The user asks" in thinking.thinking
    assert len(thinking.signature) == 32
    assert answer.text == text
    assert [b.model_dump(exclude={"signature"}) for b in final.content] == [
        b.model_dump(exclude={"signature"}) for b in whole.content
    ]
    assert final.usage.model_dump(exclude_none=True) == whole.usage.model_dump(exclude_none=True)
    assert final.stop_reason == whole.stop_reason == "end_turn"


def test_a_conversation_with_a_tool(parsed: Setup) -> None:
    client = client_of(parsed)
    messages = user("What is the weather in Paris?")
    ask: dict[str, Any] = {"model": MODEL, "max_tokens": 200, "tools": [WEATHER], "system": "Be brief."}
    ask["thinking"] = NO_THINKING
    called = client.messages.create(messages=messages, **ask)
    (call,) = called.content
    assert (called.stop_reason, call.type) == ("tool_use", "tool_use")
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    with client.messages.stream(messages=messages, **ask) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        streamed = stream.get_final_message()
    assert json.loads("".join(pieces)) == streamed.content[0].input == {"city": "Paris"}
    assert streamed.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "rain"}]}
    messages += [{"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    answered = client.messages.create(messages=messages, **ask)
    assert answered.content[0].text == "The tool answered rain, so take a light jacket."


def test_thinking(parsed: Setup) -> None:
    client = client_of(parsed)
    ask: dict[str, Any] = {"model": MODEL, "messages": user("Why is the sky blue?")}
    thought = client.messages.create(max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}, **ask)
    assert [block.type for block in thought.content] == ["thinking", "text"]
    # Thinking goes back with the conversation, signature and all.
    more = [*ask["messages"], {"role": "assistant", "content": thought.content}, *user("Hello")]
    again = client.messages.create(model=MODEL, max_tokens=50, messages=more, thinking=NO_THINKING)
    assert again.content[-1].text == HELLO


def test_stop_sequences(plain: Setup) -> None:
    client = client_of(plain)
    ask: dict[str, Any] = {"model": MODEL, "max_tokens": 500, "messages": user("count"), "stop_sequences": ["7,"]}
    message = client.messages.create(**ask)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "7,")
    assert message.content[0].text == "1, 2, 3, 4, 5, 6, "
    with client.messages.stream(**ask) as stream:
        streamed = stream.get_final_message()
    assert streamed.content[0].text == message.content[0].text
    assert (streamed.stop_reason, streamed.stop_sequence) == ("stop_sequence", "7,")
    assert wait_for(lambda: not plain.engine.running)


def test_the_longest_output(plain: Setup) -> None:
    message = client_of(plain).messages.create(model=MODEL, max_tokens=5, messages=user("count"))
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 5)


def test_errors_are_the_clients_exceptions(plain: Setup) -> None:
    client = client_of(plain)
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.messages.create(model="gpt-9", max_tokens=5, messages=user("Hi"))
    assert missing.value.body == {
        "type": "error",
        "error": {
            "type": "not_found_error",
            "message": f"The model `gpt-9` does not exist. Valid aliases: {MODEL}.",
        },
    }
    with pytest.raises(anthropic.BadRequestError, match="max_tokens must be positive"):
        client.messages.create(model=MODEL, max_tokens=0, messages=user("Hi"))
    image: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    with pytest.raises(anthropic.BadRequestError, match="is not a multimodal model"):
        client.messages.create(model=MODEL, max_tokens=5, messages=[{"role": "user", "content": [image]}])


@pytest.mark.parametrize("fault", CUT)
def test_a_stream_that_fails_ends_with_an_error(plain: Setup, fault: str) -> None:
    assert fault in FAULTS
    client = client_of(plain)
    with (
        pytest.raises(anthropic.APIStatusError) as failed,
        client.messages.stream(model=MODEL, max_tokens=500, messages=user(fault)) as stream,
    ):
        list(stream)
    body = failed.value.body
    assert isinstance(body, dict)
    assert (body["type"], body["error"]["type"]) == ("error", "api_error")


def test_a_client_that_goes_away_stops_the_engine(plain: Setup) -> None:
    with client_of(plain).messages.stream(model=MODEL, max_tokens=1000, messages=user("never ends")) as stream:
        next(iter(stream.text_stream))
        assert plain.engine.running
    assert wait_for(lambda: not plain.engine.running)


def test_keys(start: Any) -> None:
    setup = start(api_key=("a-secret",))
    ask: dict[str, Any] = {"model": MODEL, "max_tokens": 50, "messages": user("Hello")}
    assert client_of(setup, "a-secret").messages.create(**ask).content[0].text == HELLO
    bearer = anthropic.Anthropic(base_url=setup.url, auth_token="a-secret", max_retries=0)
    assert bearer.messages.create(**ask).content[0].text == HELLO
    for refused in ("a-secre", ""):
        with pytest.raises(anthropic.AuthenticationError) as error:
            client_of(setup, refused or "x").messages.create(**ask)
        assert error.value.body["error"]["type"] == "authentication_error"  # type: ignore[index]
    bare = httpx.post(f"{setup.url}/v1/messages/count_tokens", json=ask)
    assert (bare.status_code, bare.json()["error"]["type"]) == (401, "authentication_error")


def test_a_request_of_a_coding_agent(parsed: Setup) -> None:
    """Of the size and the shape that they send: tools by the dozen, a long system prompt with marks for caches, calls
    side by side, an attribution header, results with errors in them."""
    tools = [{**WEATHER, "name": f"tool_{number}", "description": "Does things. " * 200} for number in range(40)]
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=abcde;"},
        {"type": "text", "text": "You are an agent. " * 2000, "cache_control": {"type": "ephemeral"}},
    ]
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": f"tool_{n}", "input": {"city": "x"}} for n in range(3)]
    results = [
        {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "failed", "is_error": n == 1} for n in range(3)
    ]
    results[-1]["cache_control"] = {"type": "ephemeral"}
    message = client_of(parsed).messages.create(
        model=MODEL,
        max_tokens=100,
        system=system,  # type: ignore[arg-type]
        tools=[*tools, WEATHER],  # type: ignore[list-item]
        tool_choice={"type": "auto"},
        metadata={"user_id": "u"},
        thinking=NO_THINKING,
        extra_body={"temperature": 1.0},
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "Do it", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Yes."}, *calls]},  # type: ignore[list-item]
            {"role": "user", "content": results},  # type: ignore[typeddict-item]
        ],
    )
    assert message.content[-1].text == "The tool answered failed, so take a light jacket."
    assert message.usage.input_tokens > 20_000
