"""OpenAI's official client and its ``responses`` against the relay, as it comes from the registry."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from tests.relay.conftest import MODEL, Setup
from tests.support.waiting import wait_for

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
# qwen3's parser takes all that has no end of thinking in it for thinking, unless thinking is off.
NO_THINKING: Any = {"chat_template_kwargs": {"enable_thinking": False}}
HELLO = "Hello! How can I help you today?"
CUT = ("is cut", "breaks later", "reports an error later", "sends no json", "sends strange ids")


def test_a_response(plain: Setup) -> None:
    response = plain.client.responses.create(model=MODEL, input="Hello there", instructions="Be kind.")
    assert response.id.startswith("resp_")
    assert (response.object, response.status, response.model) == ("response", "completed", MODEL)
    assert response.output_text == HELLO
    assert response.instructions == "Be kind."
    assert response.usage is not None
    assert response.usage.output_tokens == 10  # nine and the end of sequence
    rendered = httpx.post(f"{plain.url}/v1/responses/render", json={"input": "Hello there", "instructions": "Be kind."})
    assert response.usage.input_tokens == len(rendered.json()["token_ids"])


def test_the_events_of_a_stream(plain: Setup) -> None:
    events: list[Any] = list(plain.client.responses.create(model=MODEL, input="Hello there", stream=True))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        # An event for each token of the engine, as it came: nothing is collected.
        *["response.output_text.delta"] * 9,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == HELLO
    assert {event.item_id for event in events if hasattr(event, "item_id")} == {events[-1].response.output[0].id}


def test_the_stream_helper(parsed: Setup) -> None:
    """What the client puts together is the answer in one piece."""
    with parsed.client.responses.stream(model=MODEL, input="Why is the sky blue?") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    whole = parsed.client.responses.create(model=MODEL, input="Why is the sky blue?")
    assert [item.type for item in final.output] == [item.type for item in whole.output] == ["reasoning", "message"]
    assert text == final.output_text == whole.output_text
    thinking: Any = final.output[0]
    assert "The user asks" in thinking.content[0].text
    assert final.usage == whole.usage
    assert final.usage is not None
    assert final.usage.output_tokens_details.reasoning_tokens > 5


def test_a_conversation_with_a_tool(parsed: Setup) -> None:
    ask: dict[str, Any] = {"model": MODEL, "tools": [WEATHER], "extra_body": NO_THINKING, "store": True}
    items: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
    called = parsed.client.responses.create(input=items, **ask)
    (call,) = called.output
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments), call.status) == ("get_weather", {"city": "Paris"}, "completed")
    with parsed.client.responses.stream(input=items, **ask) as stream:
        pieces = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        streamed: Any = stream.get_final_response().output[0]
    assert json.loads("".join(pieces)) == json.loads(streamed.arguments) == {"city": "Paris"}
    items += [*called.output, {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
    answered = parsed.client.responses.create(input=items, **ask)
    assert answered.output_text == "The tool answered rain, so take a light jacket."


def test_a_parsed_answer(start: Any) -> None:
    class Point(BaseModel):
        x: int
        y: int

    setup = start()
    setup.engine.script = type(setup.engine.script)({"rules": [{"match": ".", "answer": '{"x": 1, "y": 2}'}]})
    response = setup.client.responses.parse(model=MODEL, input="A point", text_format=Point)
    assert response.output_parsed == Point(x=1, y=2)
    asked = response.text
    assert asked is not None
    assert asked.format is not None
    assert asked.format.type == "json_schema"


def test_the_longest_output(plain: Setup) -> None:
    response = plain.client.responses.create(model=MODEL, input="count", max_output_tokens=5)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    events: Any = list(plain.client.responses.create(model=MODEL, input="count", max_output_tokens=5, stream=True))
    assert (events[-1].type, events[-1].response.output[0].status) == ("response.incomplete", "incomplete")


def test_log_probabilities(plain: Setup) -> None:
    ask: dict[str, Any] = {"model": MODEL, "input": "Hello there", "include": ["message.output_text.logprobs"]}
    response: Any = plain.client.responses.create(top_logprobs=2, **ask)
    told = response.output[0].content[0].logprobs
    assert "".join(entry.token for entry in told[:9]) == HELLO
    assert {len(entry.top_logprobs) for entry in told} == {2}


def test_what_a_store_would_be_asked(plain: Setup) -> None:
    """As vLLM's server without one answers."""
    client = plain.client.responses
    with pytest.raises(openai.NotFoundError, match="Response with id 'resp_1' not found") as missing:
        client.create(model=MODEL, input="Hi", previous_response_id="resp_1")
    assert missing.value.body == {
        "message": "Response with id 'resp_1' not found.",
        "type": "invalid_request_error",
        "param": "response_id",
        "code": 404,
    }
    with pytest.raises(openai.BadRequestError, match="does not support the background mode"):
        client.create(model=MODEL, input="Hi", background=True)
    with pytest.raises(openai.BadRequestError, match="background can only be used when `store` is true"):
        client.create(model=MODEL, input="Hi", background=True, store=False)
    with pytest.raises(openai.NotFoundError):
        client.retrieve("resp_1")
    with pytest.raises(openai.NotFoundError):
        client.cancel("resp_1")
    assert client.create(model=MODEL, input="Hello there", store=True).output_text == HELLO


def test_errors_are_the_clients_exceptions(plain: Setup) -> None:
    client = plain.client.responses
    with pytest.raises(openai.NotFoundError, match="`gpt-9` does not exist"):
        client.create(model="gpt-9", input="Hi")
    with pytest.raises(openai.BadRequestError, match="tool_choice"):
        client.create(model=MODEL, input="Hi", tool_choice="required")
    image: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]
    with pytest.raises(openai.BadRequestError, match="is not a multimodal model"):
        client.create(model=MODEL, input=image)


@pytest.mark.parametrize("fault", CUT)
def test_a_stream_that_fails_ends_with_an_error(plain: Setup, fault: str) -> None:
    with pytest.raises(openai.APIError, match="engine"):
        list(plain.client.responses.create(model=MODEL, input=fault, stream=True))
    with httpx.stream("POST", f"{plain.url}/v1/responses", json={"input": fault, "stream": True}, timeout=30) as raw:
        events = [json.loads(line.removeprefix("data: ")) for line in raw.iter_lines() if line.startswith("data: ")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "error")
    assert events[-1]["message"] == events[-1]["error"]["message"]


def test_a_client_that_goes_away_stops_the_engine(plain: Setup) -> None:
    stream = plain.client.responses.create(model=MODEL, input="never ends", stream=True)
    assert next(iter(stream)).type == "response.created"
    assert wait_for(lambda: plain.engine.running)
    stream.close()
    assert wait_for(lambda: not plain.engine.running)


def test_a_request_of_a_coding_agent(parsed: Setup) -> None:
    """Of the size and the shape that they send: tools by the dozen, long instructions, calls side by side, reasoning
    that goes back, and fields that OpenAI has and nobody here needs."""
    tools = [{**WEATHER, "name": f"tool_{number}", "description": "Does things. " * 200} for number in range(40)]
    calls = [
        {"type": "function_call", "call_id": f"call_{n}", "name": f"tool_{n}", "arguments": '{"city": "x"}'}
        for n in range(3)
    ]
    results = [{"type": "function_call_output", "call_id": f"call_{n}", "output": "failed"} for n in range(3)]
    response = parsed.client.responses.create(
        model=MODEL,
        instructions="You are an agent. " * 2000,
        tools=[*tools, WEATHER],  # type: ignore[list-item]
        tool_choice="auto",
        parallel_tool_calls=True,
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="thread-1",
        metadata={"agent": "coding"},
        extra_body=NO_THINKING,
        input=[
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandboxed."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
            *calls,  # type: ignore[list-item]
            *results,  # type: ignore[list-item]
        ],
    )
    assert response.output_text == "The tool answered failed, so take a light jacket."
    assert response.usage is not None
    assert response.usage.input_tokens > 20_000


def test_langchain(parsed: Setup) -> None:
    """LangChain's model with its switch to Responses, tools bound, streamed and not."""
    model = ChatOpenAI(
        model=MODEL,
        base_url=f"{parsed.url}/v1",
        api_key="none",
        use_responses_api=True,
        max_retries=0,
        extra_body=NO_THINKING,
    )
    assert model.invoke("Hello there").text == HELLO
    assert "".join(chunk.text for chunk in model.stream("Hello there")) == HELLO
    bound = model.bind_tools([WEATHER])
    answer = bound.invoke("What is the weather in Paris?")
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [("get_weather", {"city": "Paris"})]
    chunks = list(bound.stream("What is the weather in Paris?"))
    gathered = chunks[0]
    for chunk in chunks[1:]:
        gathered += chunk
    assert [(call["name"], call["args"]) for call in gathered.tool_calls] == [("get_weather", {"city": "Paris"})]
