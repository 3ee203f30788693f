"""A response's events: what is carried of what was said, and states that do not add up."""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.dialects.responses.said import BLOCK, MAX_SIZE, Said
from core.errors import BadRequest, InvalidState
from core.upstream.responses_events import Piece
from tests.golden.application import InProcess, running
from tests.support.models import tokenizer_in

SERVER = {
    "model": "qwen3",
    "tool_call_parser": "hermes",
    "reasoning_parser": "qwen3",
    "enable_auto_tool_choice": True,
}
PROMPT = [151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198]
REQUEST = {"model": "qwen3", "input": "Hi"}
texts = st.lists(st.text(), max_size=30)


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "id": "m", "content": [{"type": "output_text", "text": text, "logprobs": None}]}


def call(text: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "f", "name": "f", "arguments": text}


@given(st.lists(st.tuples(texts, st.sampled_from([message, call])), max_size=5), texts)
def test_what_was_said_is_read_again(items: Any, rest: list[str]) -> None:
    said = Said()
    for parts, kind in items:
        for part in parts:
            said.add([Piece(part)], [1, 2])
        said.add([Piece(items=[kind("".join(parts))])], ())
    for part in rest:
        said.add([Piece(part)], ())
    read = Said.model_validate_json(said.model_dump_json()).read()
    assert read.items == [kind("".join(parts)) for parts, kind in items]
    assert read.text == "".join(rest)
    assert read.token_ids == [1, 2] * sum(len(parts) for parts, _ in items)


def test_a_call_touches_no_more_than_a_block() -> None:
    """What was said long ago is neither read nor written again."""
    words = random.Random(1)
    said, blocks = Said(), []
    for _ in range(5000):
        said.add([Piece(f" word{words.randrange(1000)}")], ())
        assert said.blocks[: len(blocks)] == blocks
        assert len(said.tail) <= 2 * BLOCK
        blocks = list(said.blocks)
    assert len(said.model_dump_json()) < 5000 * 8


def test_what_is_too_long_is_refused() -> None:
    said = Said(size=MAX_SIZE - 10)
    with pytest.raises(BadRequest, match="carry_output"):
        said.add([Piece("x" * 20)], ())


def packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode())).decode()


@pytest.mark.parametrize(
    "said",
    [
        Said(tail="no json\n"),
        Said(tail='{"x": 1}\n'),
        Said(tail='{"n": ["x"]}\n'),
        Said(tail='{"i": [1]}\n'),
        Said(tail='{"i": [{}], "n": []}\n'),
        Said(tail="1\n"),
        Said(tail="[" * 100_000 + "\n"),
        Said(blocks=["not base64!"]),
        Said(blocks=[base64.b64encode(b"no zlib").decode()]),
        Said(blocks=[packed('"a"\n') + packed('"b"\n')]),
        Said(blocks=[packed('"' + "a" * (MAX_SIZE + 1) + '"\n')]),
        Said(blocks=[packed('"' + "a" * (MAX_SIZE // 2) + '"\n')] * 3),
    ],
    ids=range(12),
)
def test_nothing_else_is_read(said: Said) -> None:
    with pytest.raises(InvalidState):
        said.read()


@pytest.fixture(scope="module")
def service(models_dir: Path) -> Iterator[InProcess]:
    with running(SERVER, models_dir, "checkpoint") as application:
        yield application


def ask(service: InProcess, path: str, **body: Any) -> tuple[int, Any]:
    return service.call("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})


def derender(service: InProcess, ids: list[int], state: Any, **fields: Any) -> tuple[int, Any]:
    chunk = {"request_id": "resp_1", "choices": [{"index": 0, "token_ids": ids, **fields.pop("choice", {})}]}
    body = {"stream": True, "generate_chunk": chunk, "stream_state": state, "prompt_token_ids": PROMPT, **fields}
    return ask(service, "/v1/responses/derender", **{"responses_request": REQUEST, **body})


def sizes(service: InProcess, **fields: Any) -> list[int]:
    found, state = [], None
    words = random.Random(2)
    for token_id in [151667, *[words.randrange(1000, 20000) for _ in range(600)]]:
        status, answer = derender(service, [token_id], state, **fields)
        assert status == 200
        state = answer["stream_state"]
        found.append(len(json.dumps(state)))
    return found


def test_a_state_that_carries_nothing_stays_as_small_as_it_was(service: InProcess) -> None:
    found = sizes(service, carry_output=False)
    assert max(found[-20:]) < 1.2 * max(found[:20])
    # A token of a long text is in the decode window for as long as it is among the last.
    assert max(found) < 1.5 * max(found[:20])


def test_a_state_grows_by_a_few_bytes_a_token(service: InProcess) -> None:
    """Of random tokens, which no compression makes small; those of a model's text take half of it."""
    found = sizes(service)
    assert found[-1] - found[0] < 600 * 8


@pytest.mark.parametrize(
    "written",
    [
        None,
        [],
        {"sequence": -1},
        {"sequence": 2**60},
        {"items": []},
        {"items": {"state": "ELSEWHERE"}},
        {"items": {"state": "CONTENT"}, "said": {"tail": "x\n"}},
        {"said": {"blocks": ["x"] * 10_000}},
        {"said": {"size": -1}},
        {"created": "now"},
        {"unknown": 1},
        {"started": True, "ended": True},
    ],
)
def test_a_written_that_does_not_add_up(service: InProcess, written: Any) -> None:
    _, first = derender(service, [151667], None)
    ends = {"finish_reason": "stop"}
    status, answer = derender(service, [198], {**first["stream_state"], "written": written}, choice=ends)
    assert (status, "error" in answer) == (400, True), answer


def test_a_state_of_one_dialect_is_none_of_another(service: InProcess) -> None:
    _, of_responses = derender(service, [151667], None)
    chunk = {"request_id": "resp_1", "choices": [{"index": 0, "token_ids": [198]}]}
    chat = {"stream": True, "generate_chunk": chunk, "prompt_token_ids": PROMPT}
    chat["chat_request"] = {"messages": [{"role": "user", "content": "Hi"}]}
    status, answer = ask(service, "/v1/chat/completions/derender", **chat, stream_state=of_responses["stream_state"])
    assert (status, "error" in answer) == (400, True)
    _, of_chat = ask(service, "/v1/chat/completions/derender", **chat)
    status, answer = derender(service, [198], of_chat["stream_state"])
    assert status == 400
    assert "not the state of a Responses stream" in answer["error"]["message"]


def test_a_request_is_always_needed(service: InProcess) -> None:
    response = {"choices": [{"index": 0, "token_ids": [198]}]}
    status, answer = ask(service, "/v1/responses/derender", generate_response=response)
    assert (status, "responses_request is required" in answer["error"]["message"]) == (400, True)
    chunk = {"request_id": "resp_1", "choices": [{"index": 0, "token_ids": [198]}]}
    status, answer = ask(service, "/v1/responses/derender", stream=True, generate_chunk=chunk)
    assert (status, "responses_request is required" in answer["error"]["message"]) == (400, True)


def test_a_response_is_one_choice(service: InProcess) -> None:
    choices = [{"index": index, "token_ids": [198]} for index in range(2)]
    body = {"generate_response": {"choices": choices}, "responses_request": REQUEST}
    status, answer = ask(service, "/v1/responses/derender", **body)
    assert (status, answer["error"]["param"]) == (400, "generate_response")


def test_a_custom_tools_input_comes_in_pieces(service: InProcess, models_dir: Path) -> None:
    """Its arguments are an object with one text, of which the events show what is inside."""
    tokenizer = tokenizer_in(models_dir / "qwen3")
    payload = 'ls -l "a b"\nécho ok'
    text = '<tool_call>\n{"name": "shell", "arguments": ' + json.dumps({"input": payload}) + "}\n</tool_call>"
    ids = [*tokenizer.encode(text, add_special_tokens=False), 151645]
    request = {
        **REQUEST,
        "tools": [{"type": "custom", "name": "shell"}],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    prompt = [*PROMPT, 151667, 271, 151668, 271]
    events, state = [], None
    for place, token_id in enumerate(ids):
        ends = {"finish_reason": "stop"} if place == len(ids) - 1 else {}
        status, answer = derender(
            service, [token_id], state, responses_request=request, prompt_token_ids=prompt, choice=ends
        )
        assert status == 200, answer
        events += answer["events"]
        state = answer["stream_state"]
    deltas = [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == payload
    (item,) = events[-1]["response"]["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "shell", payload)
