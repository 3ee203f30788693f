"""Agent loops of real clients through a relay that continues turns: what the engine sees begins with what it sampled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import anthropic
import httpx
import openai
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from core.tokenizer import Tokenizer
from tests.engine.generation import Engine
from tests.relay.conftest import MODEL, PARSERS, Setup

Json = dict[str, Any]
TURNS = 10
KEYS = {"state_key": ("a key of the tests, long enough",)}
THOUGHT = "<think>\nStep {1} is done, so\ngo on.\n</think>\n\n\n"
# Spacing that neither the parser keeps nor the template writes.
CALL = (
    'I look again:\n\n <tool_call>\n{"name":"get_weather",  "arguments": {"city":"Paris", "days": {1}}}\n</tool_call>'
)
END = "It was {1} steps.  \n"
SCRIPT: Json = {
    "rules": [
        {"match": rf"step ({TURNS - 1})", "answer": THOUGHT + END},
        {"match": r"step (\d+)", "answer": THOUGHT + CALL},
        {"match": r"thanks (\w+)", "answer": "You are welcome,  {1}."},
    ]
}
TOOL: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}


@tool
def get_weather(city: str, days: int) -> str:
    """Weather of a city."""
    return f"step {days + 1}"


@pytest.fixture
def continuing(start: Callable[..., Setup], make_engine: Callable[..., Engine]) -> Setup:
    """A relay that appends and caches."""
    return start(make_engine(SCRIPT), continue_turns="append", turn_cache=10, **PARSERS, **KEYS)


@pytest.fixture
def uncached(start: Callable[..., Setup], make_engine: Callable[..., Engine]) -> Setup:
    """A relay that appends and goes by messages alone."""
    return start(make_engine(SCRIPT), continue_turns="append", **PARSERS, **KEYS)


def check(setup: Setup, tokenizer: Tokenizer, turns: int = TURNS) -> None:
    """Each prompt that the engine saw begins with the last one and its output."""
    prompts = [seen["token_ids"] for seen in setup.engine.seen]
    assert len(prompts) == turns
    for number, (before, after) in enumerate(pairwise(prompts)):
        text = (THOUGHT + (CALL if number < TURNS - 1 else END)).replace("{1}", str(number))
        output = tokenizer.encode(f"{text}<|im_end|>", add_special_tokens=False)
        assert after[: len(before) + len(output)] == [*before, *output], number


def first(tools: bool = True) -> Json:
    body: Json = {"model": MODEL, "messages": [{"role": "user", "content": "Go: step 0"}]}
    return {**body, "tools": [TOOL]} if tools else body


def follow(message: Json) -> list[Json]:
    calls = message.get("tool_calls") or ()
    return [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": get_weather.invoke(json.loads(call["function"]["arguments"])),
        }
        for call in calls
    ]


@pytest.mark.parametrize("which", ["continuing", "uncached"])
def test_openai(which: str, request: pytest.FixtureRequest, tokenizer: Tokenizer) -> None:
    """OpenAI's client appends the message that it got, unknown fields and all."""
    setup: Setup = request.getfixturevalue(which)
    body = first()
    for _ in range(TURNS):
        message = setup.client.chat.completions.create(**body).choices[0].message
        body["messages"] = [*body["messages"], message, *follow(message.model_dump())]
    assert message.content == f"It was {TURNS - 1} steps.  \n".strip() or message.content
    check(setup, tokenizer)


def test_openai_streams(continuing: Setup, tokenizer: Tokenizer) -> None:
    """A client that puts a stream together itself keeps what it knows: the cache knows the rest."""
    body = first()
    for _ in range(TURNS):
        message: Json = {"role": "assistant", "content": ""}
        calls: dict[int, Json] = {}
        for chunk in continuing.client.chat.completions.create(**body, stream=True):
            delta = chunk.choices[0].delta
            message["content"] += delta.content or ""
            for part in delta.tool_calls or ():
                call = calls.setdefault(part.index, {"id": part.id, "type": "function", "function": {"arguments": ""}})
                assert part.function is not None
                if part.function.name:
                    call["function"]["name"] = part.function.name
                call["function"]["arguments"] += part.function.arguments or ""
        if calls:
            message["tool_calls"] = list(calls.values())
        body["messages"] = [*body["messages"], message, *follow(message)]
    check(continuing, tokenizer)


@pytest.mark.parametrize("streams", [False, True])
def test_langchain(continuing: Setup, tokenizer: Tokenizer, streams: bool) -> None:
    """LangChain drops unknown fields, reasoning among them, and spells arguments anew."""
    model = ChatOpenAI(model=MODEL, base_url=f"{continuing.url}/v1", api_key="none", max_retries=0)  # type: ignore[arg-type]
    bound = model.bind_tools([get_weather])
    messages: list[Any] = [HumanMessage("Go: step 0")]
    for _ in range(TURNS):
        answer: Any
        if streams:
            parts = list(bound.stream(messages))
            answer = sum(parts[1:], parts[0])
        else:
            answer = bound.invoke(messages)
        results = [ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls]
        messages += [answer, *results]
    check(continuing, tokenizer)


def test_anthropic(continuing: Setup, tokenizer: Tokenizer) -> None:
    """Messages have no place for the field in Anthropic's client; the cache goes by what is said."""
    client = anthropic.Anthropic(base_url=continuing.url, api_key="none", max_retries=0)
    schema = TOOL["function"]["parameters"]
    messages: list[Any] = [{"role": "user", "content": "Go: step 0"}]
    for _ in range(TURNS):
        answer: Any = client.messages.create(
            model=MODEL,
            max_tokens=500,
            tools=[{"name": "get_weather", "input_schema": schema}],
            messages=messages,
        )
        calls = [block for block in answer.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": get_weather.invoke(call.input)} for call in calls
        ]
        messages += [{"role": "assistant", "content": [block.model_dump() for block in answer.content]}]
        messages += [{"role": "user", "content": results}] if results else []
    check(continuing, tokenizer)


RESPONSES_TOOL: Json = {"type": "function", "strict": False, **TOOL["function"]}


@pytest.mark.parametrize(("which", "streams"), [("continuing", False), ("uncached", False), ("uncached", True)])
def test_responses(which: str, streams: bool, request: pytest.FixtureRequest, tokenizer: Tokenizer) -> None:
    """OpenAI's client sends the items of a response back as input, unknown fields and all."""
    setup: Setup = request.getfixturevalue(which)
    given: list[Any] = [{"role": "user", "content": "Go: step 0"}]
    for _ in range(TURNS):
        response: Any
        if streams:
            with setup.client.responses.stream(model=MODEL, input=given, tools=[RESPONSES_TOOL]) as stream:  # type: ignore[list-item]
                response = stream.get_final_response()
        else:
            response = setup.client.responses.create(model=MODEL, input=given, tools=[RESPONSES_TOOL])  # type: ignore[list-item]
        given += [item.model_dump(exclude_unset=True) for item in response.output]
        for item in response.output:
            if item.type == "function_call":
                result = get_weather.invoke(json.loads(item.arguments))
                given.append({"type": "function_call_output", "call_id": item.call_id, "output": result})
    check(setup, tokenizer)


def test_responses_of_clients_that_keep_no_field(continuing: Setup, tokenizer: Tokenizer) -> None:
    """The cache goes by what was said, and the answer tells what became of its ids where that is asked."""
    given: list[Any] = [{"role": "user", "content": "Go: step 0"}]
    for number in range(3):
        body = {"model": MODEL, "input": given, "tools": [RESPONSES_TOOL], "continue_from": {"policy": "append"}}
        answer = post(continuing, body, "/v1/responses").json()
        assert answer["continuation"]["mode"] == ("append" if number else "plain")
        for item in answer["output"]:
            given = [*given, {name: value for name, value in item.items() if name != "turn_state"}]
            if item["type"] == "function_call":
                given.append(
                    {
                        "type": "function_call_output",
                        "call_id": item["call_id"],
                        "output": get_weather.invoke(json.loads(item["arguments"])),
                    }
                )
    check(continuing, tokenizer, 3)


def test_responses_with_a_forged_field(uncached: Setup) -> None:
    body: Json = {"model": MODEL, "input": [{"role": "user", "content": "Go: step 0"}], "tools": [RESPONSES_TOOL]}
    output = post(uncached, body, "/v1/responses").json()["output"]
    output[-1]["turn_state"]["state"]["chars"] += 1
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "step 1"}
    answer = post(uncached, {**body, "input": [*body["input"], *output, result]}, "/v1/responses")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith(f"body.input.{len(output)}.turn_state"), answer.text


def post(setup: Setup, body: Json, path: str = "/v1/chat/completions") -> httpx.Response:
    return httpx.post(setup.url + path, json=body, timeout=30)


def test_nothing_is_said_unless_it_is_asked_for(
    start: Callable[..., Setup], make_engine: Callable[..., Engine]
) -> None:
    """Off, the wire is vLLM's; a request may ask all the same."""
    setup = start(make_engine(SCRIPT), **PARSERS)
    plain = post(setup, first()).json()
    assert "continuation" not in plain
    assert "turn_state" not in plain["choices"][0]["message"]
    asked = post(setup, {**first(), "continue_from": {"policy": "append"}}).json()
    assert asked["continuation"]["mode"] == "plain"
    message = asked["choices"][0]["message"]
    body = {**first(), "continue_from": {"policy": "append"}}
    body["messages"] = [*body["messages"], message, *follow(message)]
    told = post(setup, body).json()["continuation"]
    assert told["mode"] == "append"
    assert told["reason"] is None
    with httpx.stream("POST", f"{setup.url}/v1/chat/completions", json={**body, "stream": True}) as response:
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    assert events[0]["continuation"] == told
    (last,) = [event for event in events if event["choices"] and event["choices"][0]["finish_reason"]]
    assert last["choices"][0]["delta"]["turn_state"]["kept"] == told["kept"]


@pytest.fixture
def carried(uncached: Setup) -> tuple[Setup, Json]:
    """A request whose answer came with its ids."""
    message = post(uncached, first()).json()["choices"][0]["message"]
    body = {**first(), "continue_from": {"policy": "append"}}
    return uncached, {**body, "messages": [*body["messages"], message, *follow(message)]}


def altered(body: Json, **changes: Any) -> Json:
    """The body with another field on its answer; "state" is merged."""
    messages = [dict(message) for message in body["messages"]]
    turn = messages[1]["turn_state"]
    messages[1]["turn_state"] = {**turn, **changes, "state": {**turn["state"], **changes.get("state", {})}}
    return {**body, "messages": messages}


@pytest.mark.parametrize(
    "changes",
    [
        {"state": {"chars": 3}},
        {"state": {"spans": [0, 10**9]}},
        {"state": {"signature": None}},
        {"prompt_ids": "no ids"},
        {"output_ids": ""},
        {"output_ids": None},
        {"kept": -1},
        {"more": 1},
    ],
)
def test_hostile_fields(carried: tuple[Setup, Json], changes: Json) -> None:
    setup, body = carried
    answer = post(setup, altered(body, **changes))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"].startswith("body.messages.1.turn_state"), answer.text


def test_a_conversation_that_lost_messages(carried: tuple[Setup, Json]) -> None:
    """A client may shorten its history: it is answered, from a plain prompt, and told why."""
    setup, body = carried
    for changes in ({"kept": 5}, {"prompt_ids": body["messages"][1]["turn_state"]["output_ids"]}):
        told = post(setup, altered(body, **changes)).json()["continuation"]
        assert told["mode"] == "plain"
        assert told["reason"] == "the messages do not carry the ids of every answer"
    edited = [body["messages"][0], {**body["messages"][1], "content": "Another."}, *body["messages"][2:]]
    told = post(setup, {**body, "messages": edited}).json()["continuation"]
    assert told["mode"] == "part"
    assert told["reason"] == "the last answer is not the one that was sampled"


def test_callers_find_their_own_only(start: Callable[..., Setup], make_engine: Callable[..., Engine]) -> None:
    """The same text from another caller is another conversation."""
    setup = start(
        make_engine(SCRIPT), continue_turns="append", turn_cache=10, api_key=("one" * 8, "two" * 8), **PARSERS, **KEYS
    )

    def ask(key: str, body: Json) -> Json:
        headers = {"authorization": f"Bearer {key}"}
        answer: Json = httpx.post(f"{setup.url}/v1/chat/completions", json=body, headers=headers, timeout=30).json()
        return answer

    message = ask("one" * 8, first())["choices"][0]["message"]
    bare = {name: value for name, value in message.items() if name in ("role", "content", "tool_calls")}
    body = {**first(), "continue_from": {"policy": "append"}}
    body["messages"] = [*body["messages"], bare, *follow(bare)]
    assert ask("one" * 8, body)["continuation"]["mode"] == "append"
    assert ask("two" * 8, body)["continuation"]["mode"] == "plain"


def test_the_client_is_openai(continuing: Setup) -> Iterator[None] | None:
    """The parsed message of OpenAI's client has the field, and sends it back."""
    message = continuing.client.chat.completions.create(**first()).choices[0].message
    assert isinstance(message, openai.types.chat.ChatCompletionMessage)
    assert message.model_dump()["turn_state"]["state"]["version"] == 1
    return None
