"""The comparison can fail: what joining and the kinds of difference must tell apart, and what they must not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.equality import joined, recorded
from tests.equality.cases import chunkings
from tests.equality.document import MEANINGS
from tests.equality.wire import Case, Json, engine_chunks

CALL = {"id": "chatcmpl-tool-*", "type": "function", "name": "f", "arguments": '{"a": 1}'}
ANSWER: Json = {"content": "x y", "reasoning": "z", "calls": [CALL], "finish_reason": "tool_calls", "usage": [1, 2, 3]}


def changed(path: list[Any], value: Any) -> Json:
    answer = copy.deepcopy(ANSWER)
    place: Any = answer
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return answer


@pytest.mark.parametrize(
    ("path", "value", "kind"),
    [
        (["content"], "x  y\n", "content: white space"),
        (["content"], "", "content: lost"),
        (["content"], " ", "content: lost"),
        (["content"], "x", "content: less streamed"),
        (["content"], "x y, and", "content: more streamed"),
        (["content"], "x z", "content: other text"),
        (["reasoning"], "", "reasoning: lost"),
        (["calls"], [], "call lost"),
        (["calls"], [CALL, CALL], "call only streamed"),
        (["calls", 0, "id"], "functions.f:0", "call id"),
        (["calls", 0, "type"], None, "call type"),
        (["calls", 0, "name"], "g", "call name"),
        (["calls", 0, "arguments"], '{"a":1}', "arguments: spelling"),
        (["calls", 0, "arguments"], '{"a": 1.0}', "arguments: other value"),
        (["calls", 0, "arguments"], '{"a": true}', "arguments: other value"),
        (["calls", 0, "arguments"], '{"a": ', "arguments: cut"),
        (["calls", 0, "arguments"], "", "arguments: cut"),
        (["calls", 0, "arguments"], '{"a": 1}}', "arguments: not JSON when streamed"),
        (["finish_reason"], "stop", "finish_reason"),
        (["finish_reason"], None, "finish_reason"),
        (["usage"], [1, 2, 4], "usage"),
        (["usage"], None, "usage"),
    ],
)
def test_a_difference_has_its_kind(path: list[Any], value: Any, kind: str) -> None:
    stream = changed(path, value)
    assert joined.kinds(ANSWER, stream) == [kind]
    assert joined.digest(stream) != joined.digest(ANSWER)
    assert kind in MEANINGS


def test_kinds_of_the_other_direction() -> None:
    assert joined.kinds(changed(["content"], ""), ANSWER) == ["content: only streamed"]
    assert joined.kinds(changed(["calls", 0, "arguments"], "{"), ANSWER) == ["arguments: not JSON one-shot"]
    assert joined.kinds(joined.REFUSED, ANSWER) == ["one-shot refused"]
    assert joined.kinds(ANSWER, joined.REFUSED) == ["stream refused"]
    assert joined.kinds(joined.REFUSED, joined.REFUSED) == []
    assert joined.kinds(ANSWER, copy.deepcopy(ANSWER)) == []


def chunk(finish_reason: str | None = None, **delta: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], "usage": None}


def test_a_stream_is_joined_to_the_whole_answer() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    call = {"id": "chatcmpl-tool-0123456789abcdef", "type": "function"}
    whole = {
        "choices": [
            {
                "message": {
                    "content": "ab",
                    "reasoning": None,
                    "tool_calls": [{**call, "function": {"name": "f", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": usage,
    }
    chunks = [
        chunk(role="assistant", content="a", reasoning=None),
        chunk(content="b"),
        chunk(tool_calls=[{**call, "index": 0, "function": {"name": "f", "arguments": None}}]),
        chunk(tool_calls=[{"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": "{"}}]),
        chunk("tool_calls", tool_calls=[{"index": 0, "function": {"arguments": "}"}}]),
        {"choices": [], "usage": usage},
    ]
    assert joined.streamed(chunks) == joined.whole(whole)
    for left_out in (0, 1, 2, 3, 4, 5):
        assert joined.streamed(chunks[:left_out] + chunks[left_out + 1 :]) != joined.whole(whole)


@pytest.mark.parametrize(
    ("call_id", "shape"),
    [
        ("chatcmpl-tool-0123456789abcdef", "chatcmpl-tool-*"),
        ("call_0_0123456789abcdef", "call_0_*"),
        ("Ab3dE6gh9", "*"),
        ("functions.get_weather:0", "functions.get_weather:0"),
    ],
)
def test_only_what_is_random_of_an_id_is_left_out(call_id: str, shape: str) -> None:
    stream = joined.streamed([chunk(tool_calls=[{"index": 0, "id": call_id, "type": "function"}])])
    assert stream["calls"][0]["id"] == shape


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 6, 100])
def test_every_chunking_has_all_tokens_and_ends_once(count: int, stopped: bool) -> None:
    for lengths in chunkings(count, stopped, "seed").values():
        case = Case((None, None), "", "", "", {}, [7], list(range(count)), "stop", {"one": lengths})
        *chunks, usage = engine_chunks(case, lengths)
        choices = [one["choices"][0] for one in chunks]
        assert [i for choice in choices for i in choice["token_ids"]] == case.ids
        assert ["finish_reason" in choice for choice in choices] == [False] * (len(choices) - 1) + [True]
        assert usage["usage"] == {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
        assert all(lengths[:-1])
        # A token that stops the output is never in a chunk before the one that says so.
        assert lengths[-1] or not stopped


def test_chunkings_are_the_same_every_time_and_differ_by_seed() -> None:
    assert chunkings(50, True, "a") == chunkings(50, True, "a")
    assert chunkings(50, True, "a") != chunkings(50, True, "b")


def test_what_is_recorded_tells_each_chunking_apart() -> None:
    streams = {"whole": ANSWER, "by 1": changed(["content"], ""), "by 3": changed(["usage"], None)}
    answer = recorded.answer(ANSWER, streams)
    assert answer.compared == 3
    assert answer.expected("whole") == (joined.digest(ANSWER), ())
    assert answer.expected("by 1") == (joined.digest(streams["by 1"]), ("content: lost",))
    assert answer.expected("by 3") == (joined.digest(streams["by 3"]), ("usage",))
