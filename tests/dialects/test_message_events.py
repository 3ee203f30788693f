"""A message's events: what waits and what is kept stays small, and a state that does not add up is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.choice.output import ChoiceOutput
from core.dialects.messages.answer import read_input
from core.dialects.messages.arguments import ArgumentsEnd
from core.dialects.messages.events import MAX_WAITING, MessageEvents, Written
from core.protocol.engine import StreamChoice
from tests.golden.application import InProcess, running

SERVER = {
    "model": "qwen3",
    "tool_call_parser": "hermes",
    "reasoning_parser": "qwen3",
    "enable_auto_tool_choice": True,
}
PROMPT = [151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198]
REQUEST = {"model": "qwen3", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), values, min_size=1), st.lists(st.integers(0, 400), max_size=6))
def test_arguments_are_complete_at_their_end_and_not_before(value: Any, cuts: list[int]) -> None:
    text = json.dumps(value)
    end = ArgumentsEnd()
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for start, stop in pairwise(places):
        end.read(text[start:stop])
        assert end.complete == (stop == len(text))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"city": "Paris"}', {"city": "Paris"}),
        ('{"city": "Paris", "unit": "cel', {"city": "Paris"}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ("", {}),
        ("[1]", {}),
        ('{"city": }', {}),
        ("not json", {}),
    ],
)
def test_an_input_is_an_object(arguments: str, expected: Any) -> None:
    assert read_input(arguments) == expected


def output(**fields: Any) -> ChoiceOutput:
    return ChoiceOutput(StreamChoice(index=0), **fields)


def call(index: int, **fields: Any) -> Any:
    name, arguments = fields.get("name"), fields.get("arguments")
    return {"index": index, "id": fields.get("id"), "type": None, "function": {"name": name, "arguments": arguments}}


def test_text_that_never_ends_after_a_call_is_not_kept() -> None:
    events = MessageEvents("m", "model", Written())
    said = list(events.say(output(tool_calls=[call(0, id="c", name="f", arguments="{}")])))
    for _ in range(1000):
        said += events.say(output(content="a few words "))
        assert len(events.written.waiting) <= MAX_WAITING
    said += events.finish(output(finish_reason="stop"), {})
    text = "".join(event["delta"]["text"] for event in said if "text" in event.get("delta", {}))
    assert text == "a few words " * 1000
    starts = [event["content_block"]["type"] for event in said if event["type"] == "content_block_start"]
    assert starts == ["tool_use", "text"]


def test_a_few_characters_between_two_calls_stand_between_them() -> None:
    events = MessageEvents("m", "model", Written())
    said = list(events.say(output(tool_calls=[call(0, id="c", name="f", arguments='{"a"')])))
    said += events.say(output(content="\n", tool_calls=[call(0, arguments=": 1}")]))
    said += events.say(output(tool_calls=[call(1, id="d", name="g", arguments="{}")]))
    kinds = [(event["content_block"]["type"], event["index"]) for event in said if "content_block" in event]
    assert kinds == [("tool_use", 0), ("text", 1), ("tool_use", 2)]


@pytest.fixture(scope="module")
def service(models_dir: Path) -> Iterator[InProcess]:
    with running(SERVER, models_dir, "checkpoint") as application:
        yield application


def ask(service: InProcess, path: str, **body: Any) -> tuple[int, Any]:
    return service.call("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})


def derender(service: InProcess, ids: list[int], state: Any, **fields: Any) -> tuple[int, Any]:
    chunk = {"request_id": "m", "choices": [{"index": 0, "token_ids": ids, **fields}]}
    body = {"stream": True, "generate_chunk": chunk, "stream_state": state, "prompt_token_ids": PROMPT}
    return ask(service, "/v1/messages/derender", **body, messages_request=REQUEST)


def test_a_state_stays_as_small_as_it_was(service: InProcess) -> None:
    sizes, state = [], None
    for token_id in [151667, 198, *([11613, 323] * 150), 151668, *([2132, 374] * 150)]:
        status, answer = derender(service, [token_id], state)
        assert status == 200
        state = answer["stream_state"]
        sizes.append(len(json.dumps(state)))
    assert max(sizes) < 1.2 * max(sizes[:20])


@pytest.mark.parametrize(
    "written",
    [
        None,
        [],
        {"place": -1},
        {"place": 2**40},
        {"block": "image"},
        {"signature": "x" * 65},
        {"waiting": "x" * 100_000},
        {"call": -1},
        {"output_tokens": 2**60},
        {"end": {"depth": -5}},
        {"unknown": 1},
        {"started": True, "ended": True},
    ],
)
def test_a_written_that_does_not_add_up(service: InProcess, written: Any) -> None:
    _, first = derender(service, [151667], None)
    status, answer = derender(service, [198], {**first["stream_state"], "written": written})
    assert (status, "error" in answer) == (400, True), answer


def test_a_state_of_one_dialect_is_none_of_another(service: InProcess) -> None:
    _, of_messages = derender(service, [151667], None)
    chunk = {"request_id": "m", "choices": [{"index": 0, "token_ids": [198]}]}
    chat = {"stream": True, "generate_chunk": chunk, "prompt_token_ids": PROMPT}
    chat["chat_request"] = {"messages": REQUEST["messages"]}
    status, answer = ask(service, "/v1/chat/completions/derender", **chat, stream_state=of_messages["stream_state"])
    assert status == 400
    assert "another dialect" in answer["error"]["message"]
    _, of_chat = ask(service, "/v1/chat/completions/derender", **chat)
    status, answer = derender(service, [198], of_chat["stream_state"])
    assert status == 400
    assert "not the state of a Messages stream" in answer["error"]["message"]


def test_a_request_is_needed_where_there_is_a_parser(service: InProcess) -> None:
    response = {"choices": [{"index": 0, "token_ids": [198]}]}
    status, answer = ask(service, "/v1/messages/derender", generate_response=response)
    assert (status, "messages_request is required" in answer["error"]["message"]) == (400, True)
    chunk = {"request_id": "m", "choices": [{"index": 0, "token_ids": [198]}]}
    status, answer = ask(service, "/v1/messages/derender", stream=True, generate_chunk=chunk)
    assert (status, "messages_request is required" in answer["error"]["message"]) == (400, True)


def test_a_message_is_one_choice(service: InProcess) -> None:
    choices = [{"index": index, "token_ids": [198]} for index in range(2)]
    body = {"generate_response": {"choices": choices}, "messages_request": REQUEST}
    status, answer = ask(service, "/v1/messages/derender", **body)
    assert (status, answer["error"]["param"]) == (400, "generate_response")
