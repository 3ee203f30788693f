"""Requests and parsers that are kept between the calls of a stream: they save work, and change no answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core.derender.stream import derender_chat_stream
from core.errors import InvalidState
from core.json import Json
from core.kept import Kept, sum_of
from core.model import Model
from core.protocol.derender import DerenderChatStreamRequest
from tests.support.models import load

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}},
]
REQUEST: Json = {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, "stream": True}
OUTPUT = (
    "<think>\nThe tool knows. 漢字\n</think>\n\nLet me see.\n<tool_call>\n"
    '{"name": "get_weather", "arguments": {"city": "' + "Oslo " * 60 + '", "days": 3}}\n</tool_call>'
)
_ID = re.compile(r"chatcmpl-tool-[0-9a-f]+|call_[0-9a-f]+")


@pytest.fixture(scope="module")
def fresh(models_dir: Path) -> Callable[..., Model]:
    def build(keeps: bool = True, **options: Any) -> Model:
        parsers = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True}
        model = load(models_dir / "qwen3", **{**parsers, **options})
        assert model.chat_parser is not None
        if not keeps:
            model.chat_parser.requests, model.chat_parser.waiting = Kept(0), Kept(0)
        return model

    return build


def send(model: Model, ids: list[int], state: Json | None, ends: bool = False, **fields: Any) -> Json:
    chunk = {"choices": [{"index": 0, "token_ids": ids, "finish_reason": "stop" if ends else None}], "request_id": "r"}
    body = {"stream": True, "generate_chunk": chunk, "prompt_token_ids": [1, 2], "chat_request": REQUEST}
    sent = json.loads(json.dumps({**body, "stream_state": state, **fields}))
    return derender_chat_stream(model, DerenderChatStreamRequest.model_validate(sent))


def run(model: Model, **fields: Any) -> list[Json]:
    ids = model.tokenizer.encode(OUTPUT)
    answers: list[Json] = []
    for place, token_id in enumerate(ids):
        state = answers[-1]["stream_state"] if answers else None
        answers.append(send(model, [token_id], state, place == len(ids) - 1, **fields))
    return answers


def shown(answer: Json) -> Json:
    """An answer but for its time, its ids and its checkpoint, in which the ids stand, too."""
    state = {name: value for name, value in answer["stream_state"].items() if name != "checkpoint"}
    chunk = {name: value for name, value in answer["chunk"].items() if name != "created"}
    return json.loads(_ID.sub("ID", json.dumps([chunk, state])))  # type: ignore[no-any-return]


def test_a_stream_answers_alike_whether_its_parser_waits_or_is_restored(fresh: Callable[..., Model]) -> None:
    keeping, forgetting = fresh(), fresh(keeps=False)
    for fields in ({}, {"carry_context": True}):
        answers = run(keeping, **fields)
        assert list(map(shown, answers)) == list(map(shown, run(forgetting, **fields)))
        assert any(call for answer in answers for call in answer["chunk"]["choices"][0]["delta"].get("tool_calls", ()))
    parser = keeping.chat_parser
    assert parser is not None
    assert len(parser.requests._values) == 1
    assert not parser.waiting.size  # every parser was taken by the chunk after, and the last one ended


def test_a_waiting_parser_is_taken_once(fresh: Callable[..., Model]) -> None:
    """A retry, a fork of the stream and another replica's state are restored."""
    model, other = fresh(), fresh(keeps=False)
    ids = model.tokenizer.encode(OUTPUT)
    state = send(model, ids[:20], None)["stream_state"]
    parser = model.chat_parser
    assert parser is not None
    assert len(parser.waiting._values) == 1
    first = send(model, ids[20:25], state)
    for again in (send(model, ids[20:25], state), send(other, ids[20:25], state)):
        assert again["stream_state"]["checkpoint"] == first["stream_state"]["checkpoint"]
        assert shown(again) == shown(first)
    assert shown(send(model, ids[21:30], state)) == shown(send(other, ids[21:30], state))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: shown(send(model, ids[20:25], state)), range(64)))
    assert answers == [shown(first)] * 64


def test_a_call_is_read_by_its_own_request(fresh: Callable[..., Model]) -> None:
    model = fresh()
    ids = model.tokenizer.encode(OUTPUT)
    state = send(model, ids[:20], None)["stream_state"]
    hidden = send(model, ids[20:25], state, chat_request={**REQUEST, "include_reasoning": False})
    assert shown(hidden) == shown(
        send(fresh(keeps=False), ids[20:25], state, chat_request={**REQUEST, "include_reasoning": False})
    )
    for changed in ({"tools": [*TOOLS, *TOOLS]}, {"tool_choice": "none"}, {"chat_template_kwargs": {"a": 1}}):
        with pytest.raises(InvalidState, match="config does not match"):
            send(model, ids[20:25], state, chat_request={**REQUEST, **changed})


def test_a_kept_request_stays_as_it_was_validated(fresh: Callable[..., Model]) -> None:
    model = fresh()
    run(model)
    parser = model.chat_parser
    assert parser is not None
    ((known, _),) = parser.requests._values.values()
    expected = parser.validate(REQUEST).model_dump()
    kept = known.chat_request.model_dump()
    assert kept.pop("request_id") != expected.pop("request_id")
    assert kept == expected


def test_what_is_kept_stays_within_its_bytes_and_is_what_is_used() -> None:
    kept: Kept[str, int] = Kept(1_000)
    kept.put("used", 1, 100)
    for number in range(500):
        kept.put(str(number), number, 1 + number % 300)
        assert kept.size <= 1_000
        assert kept.get("used") == 1
    assert kept.get("0") is None
    assert kept.get("499") == 499
    kept.put("499", 7, 10)
    assert (kept.take("499"), kept.take("499")) == (7, None)
    kept.put("too large", 1, 1_001)
    assert kept.get("too large") is None
    while kept._values:
        kept.take(next(iter(kept._values)))
    assert kept.size == 0


def test_json_that_differs_in_anything_has_another_sum() -> None:
    values: list[Any] = [
        1,
        1.0,
        True,
        "1",
        None,
        [1],
        {"a": 1},
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        2**70,
        "\ud800",
        "",
    ]
    assert len({sum_of(value).digest for value in values}) == len(values)
    assert sum_of({"a": [1, "x"]}) == sum_of({"a": [1, "x"]})
