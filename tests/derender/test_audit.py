"""The audit of answers: each kind where it belongs, none where nothing is wrong, alike on every way to the answer."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.bundle.folder import FolderFiles
from core.choice.audit import SPLIT, Expected, GatheredAudit, RunningAudit
from core.choice.json_object import MAX_STATE, JsonObject
from core.choice.markers import LONGEST, has_markup, without_markup
from core.derender.chat import derender_chat
from core.derender.stream import derender_chat_stream
from core.dialects.chat import relay
from core.errors import InvalidState
from core.json import Json
from core.model import Model, load_model
from core.options import ModelOptions
from core.parsing.checkpoint import pack, unpack
from core.parsing.checkpoint.packing import Limits
from core.protocol.derender import DerenderChatRequest, DerenderChatStreamRequest
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.relay.answer import AnswerStream
from core.relay.request import open_chat
from core.relay.whole import WholeAnswer

TOOL: Json = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
REQUEST: Json = {
    "model": "m",
    "messages": [{"role": "user", "content": "Weather?"}],
    "tools": [TOOL],
    "max_tokens": 900,
}
PROMPT = [1, 2, 3]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
DEEPSEEK_CALL = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather"
# folder, parsers, output, finish_reason, changes of the request, kinds one-shot, kinds streamed by one token
CASES: dict[str, tuple[str, tuple[str, str | None], str, str, Json, tuple[str, ...], tuple[str, ...]]] = {
    "call": ("qwen3", ("hermes", "qwen3"), f"<think>\nHm.\n</think>\n\nI look.\n{CALL}", "stop", {}, (), ()),
    "text": ("qwen3", ("hermes", "qwen3"), "<think>\nHm.\n</think>\n\nIt is 1 < 2 [sic].", "stop", {}, (), ()),
    "cut call": ("qwen3", ("hermes", None), CALL[:-30], "length", {}, ("markup",), ()),
    "another family's parser": ("deepseek", ("hermes", None), f"Wait.{DEEPSEEK_CALL}", "stop", {}, ("markup",), ("markup",)),
    "no reasoning parser": ("qwen3", ("hermes", None), "<think>\nHm.\n</think>\n\nHi.", "stop", {}, ("markup",), ("markup",)),
    "arguments before the name": (
        "qwen3", ("hermes", None), '<tool_call>\n{"arguments": {"id": 42}, "name": "get_weather"}\n</tool_call>', "stop", {}, (), ("arguments",),
    ),
    "a tool that was not offered": ("qwen3", ("hermes", None), CALL.replace("get_weather", "rm"), "stop", {}, ("unknown_tool",), ("unknown_tool",)),
    "no tools wanted": (
        "families", ("minimax_m2", None), '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n</invoke>\n</minimax:tool_call>',
        "stop", {"tool_choice": "none"}, ("vanished",), ("vanished",),
    ),
    "a call deleted behind reasoning": (
        "qwen3", ("qwen3_coder", "qwen3"), "<think>Hm.</think><tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        "stop", {"tool_choice": "none"}, ("held",), ("held",),
    ),
}  # fmt: skip
# Where the whole output would have said something else than the relay's stream did.
SPLITS = {"arguments before the name"}
# What is wrong with repaired answers to the same outputs: markup of a parser that is another family's, or missing.
REPAIRED = {
    "another family's parser": ("markup",),
    "no reasoning parser": ("markup",),
    "a tool that was not offered": ("unknown_tool",),
    "cut call": ("markup",),
}


@pytest.fixture(scope="session")
def load(models_dir: Path) -> Callable[..., Model]:
    def load(folder: str, tool: str | None, reasoning: str | None, **options: Any) -> Model:
        parsers = {"tool_call_parser": tool, "reasoning_parser": reasoning, "enable_auto_tool_choice": tool is not None}
        chosen = {"answers": "vllm", **parsers, **options}
        return load_model(FolderFiles(models_dir / folder), ModelOptions(("m",), **chosen))

    return load


def once(model: Model, ids: list[int], finish: str, request: Json) -> tuple[list[str], Json]:
    found: list[str] = []
    choice = {"index": 3, "token_ids": ids, "finish_reason": finish}
    body = {"generate_response": {"choices": [choice]}, "chat_request": request, "prompt_token_ids": PROMPT}
    reports = []
    answer = derender_chat(
        model, DerenderChatRequest.model_validate(body), lambda index, kinds: reports.append((index, kinds))
    )
    assert [index for index, _ in reports] in ([], [3])
    for _, kinds in reports:
        found += kinds
    return found, answer


def streamed(model: Model, ids: list[int], finish: str, request: Json) -> tuple[list[str], list[Json]]:
    state, found, chunks = None, [], []
    for number, token_id in enumerate(ids):
        choice = {"index": 0, "token_ids": [token_id], "finish_reason": finish if number == len(ids) - 1 else None}
        body = {
            "stream": True, "generate_chunk": {"request_id": "r", "choices": [choice]}, "stream_state": state,
            "chat_request": request, "prompt_token_ids": PROMPT,
        }  # fmt: skip
        answer = derender_chat_stream(
            model, DerenderChatStreamRequest.model_validate(body), lambda _, kinds: found.extend(kinds)
        )
        state = json.loads(json.dumps(answer["stream_state"]))
        chunks.append(answer["chunk"])
    return found, chunks


@pytest.mark.parametrize("name", CASES)
def test_each_kind_is_found_where_it_is(load: Callable[..., Model], name: str) -> None:
    folder, parsers, text, finish, changes, whole, by_token = CASES[name]
    model, request = load(folder, *parsers), {**REQUEST, **changes}
    ids = model.tokenizer.encode(text, add_special_tokens=False)
    assert tuple(once(model, ids, finish, request)[0]) == whole
    assert tuple(streamed(model, ids, finish, request)[0]) == by_token
    assert tuple(streamed(load(folder, *parsers, stream_state="replay"), ids, finish, request)[0]) == by_token
    # The relay sees the same chunks, and gathers where the stream state remembers.
    found: list[str] = []
    opened = open_chat(model, {**request, "stream": True})
    stream = AnswerStream(opened, relay.writer(opened), lambda _, kinds: found.extend(kinds))
    for number, token_id in enumerate(ids):
        ends = finish if number == len(ids) - 1 else None
        chunk = {"choices": [{"index": 0, "token_ids": [token_id], "finish_reason": ends}]}
        stream.advance(0, GenerateChunk.model_validate(chunk))
    assert tuple(found) == (*by_token, *((SPLIT,) if name in SPLITS else ()))
    found = []
    answer = WholeAnswer(open_chat(model, request), relay.answer, lambda _, kinds: found.extend(kinds))
    response = {"choices": [{"index": 0, "token_ids": ids, "finish_reason": finish}]}
    answer.add_response(0, GenerateResponse.model_validate(response))
    answer.end()
    assert tuple(found) == whole


@pytest.mark.parametrize("name", CASES)
def test_repaired_answers_lose_nothing(load: Callable[..., Model], name: str) -> None:
    folder, parsers, text, finish, changes, _, _ = CASES[name]
    model, request = load(folder, *parsers, answers="repaired"), {**REQUEST, **changes}
    ids = model.tokenizer.encode(text, add_special_tokens=False)
    # Text that stays text because no calls are wanted is shown with its markup.
    expected = ("markup",) if changes else REPAIRED.get(name, ())
    assert tuple(once(model, ids, finish, request)[0]) == expected
    assert tuple(streamed(model, ids, finish, request)[0]) == expected
    replaying = load(folder, *parsers, answers="repaired", stream_state="replay")
    assert tuple(streamed(replaying, ids, finish, request)[0]) == expected


def test_findings_are_shown_where_that_is_asked_for(load: Callable[..., Model]) -> None:
    text = "<think>\nHm.\n</think>\n\nHi."
    for setting, expected in (("response", ["markup"]), ("metrics", None)):
        model = load("qwen3", "hermes", None, audit=setting)
        ids = model.tokenizer.encode(text, add_special_tokens=False)
        (choice,) = once(model, ids, "stop", REQUEST)[1]["choices"]
        assert choice.get("audit") == expected
        chunks = streamed(model, ids, "stop", REQUEST)[1]
        assert [chunk["choices"][0].get("audit") for chunk in chunks] == [None] * (len(chunks) - 1) + [expected]
    fine = load("qwen3", "hermes", "qwen3", audit="response")
    assert once(fine, ids, "stop", REQUEST)[1]["choices"][0]["audit"] == []


def test_nothing_is_looked_at_where_that_is_switched_off(load: Callable[..., Model]) -> None:
    model = load("qwen3", "hermes", None, audit="off")
    ids = model.tokenizer.encode("<think>\nHm.\n</think>\n\nHi.", add_special_tokens=False)
    found, answer = once(model, ids, "stop", REQUEST)
    assert found == []
    assert "audit" not in answer["choices"][0]
    assert streamed(model, ids, "stop", REQUEST)[0] == []


def test_an_audit_that_is_carried_says_what_a_whole_one_says() -> None:
    rng = random.Random(12)
    pieces = [
        "Paris",
        " ",
        "\n",
        "<think>",
        "</tool_call>",
        "<｜tool▁sep｜>",
        "ok",
        '{"a": 1}',
        "[1]",
        "\\",
        '"',
        "😀",
        "<",
        "think",
        ">",
    ]
    kinds: set[str] = set()
    for _ in range(1500):
        expected = Expected(frozenset({"f"}), rng.random() < 0.2)
        running, gathered = RunningAudit(expected), GatheredAudit(expected)
        index = 0
        for _ in range(rng.randint(0, 7)):
            said = "".join(rng.choices(pieces, k=rng.randint(0, 3)))
            content, reasoning = rng.choice([(said, None), (None, said), (None, None), (said[:2], None)])
            calls: list[Any] = []
            if rng.random() < 0.3:
                arguments = rng.choice(['{"a": "', 'x"}', "{}", "", "[]", '{"a": {"b": [1, null]}}', "}"])
                calls = [{"index": index, "function": {"name": rng.choice(["f", None, "g"]), "arguments": arguments}}]
                index += rng.random() < 0.3
            running.see(said, content, reasoning, calls)
            gathered.see(said, content, reasoning, calls)
            saved = running.save()
            assert running.save() == saved
            running = RunningAudit(expected, json.loads(json.dumps(saved)))
        finish = rng.choice(["stop", "length", "tool_calls"])
        # A name comes whole with the first part of a call; random parts have any.
        left, right = (set(audit.end(finish)) - {"unknown_tool"} for audit in (running, gathered))
        assert left == right
        kinds |= left
    assert kinds == {"vanished", "markup", "held", "arguments"}


def test_an_audit_remembers_nothing_where_all_is_shown() -> None:
    """A chunk's checkpoint is no longer for it than a number; a word that comes again and is not shown is found."""
    audit = RunningAudit(Expected(frozenset({"f"}), False))
    for word in ("Well", ", ", "yes", "! ", "a", "b"):
        audit.see(word, word, None, [])
        assert type(audit.save()) is int
    assert audit.end("stop") == ()
    audit.see(" yes", None, None, [])
    assert RunningAudit(Expected(frozenset(), False), audit.save()).end("stop") == ("held",)
    audit.see("", " yes", None, [])
    assert audit.end("stop") == ()
    assert type(audit.save()) is int


def test_what_an_audit_remembers_does_not_grow() -> None:
    audit = RunningAudit(Expected(frozenset({"f"}), False))
    for number in range(300):
        call: Any = {"index": number, "function": {"name": "f", "arguments": '{"a": "b"}'}}
        audit.see("some text and more of it", "visible", "thought", [call])
    assert len(json.dumps(audit.save())) < 6 * LONGEST + 100
    assert audit.end("stop") == ("held",) or audit.end("stop") == ()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("{}", True), ('{"a": [1, {"b": null}], "c": "x\\"y}", "d": true}', True), (' {"a":-1.5e3,"t":false}\n', True),
        ('{"a": "\\\\"}', True), ("", False), ("[]", False), ('{"a": 1', False), ('{"a": 1}, "name": "f"', False),
        ("{'a': 1}", False), ('{"a": 1}}', False), ('"x"', False), ("1", False), ("{'city': Paris}", False), ('{"a": "', False),
        ('{"a": [1}', False), ("null", False), ("{" * 200, False),
    ],
)  # fmt: skip
def test_an_object_is_followed_through_any_pieces(text: str, whole: bool) -> None:
    rng = random.Random(3)
    for size in (1, 2, 3, 100):
        followed, place = JsonObject(), 0
        while place < len(text):
            step = rng.randint(1, size)
            followed.feed(text[place : place + step])
            assert followed.state is None or len(followed.state) <= MAX_STATE
            followed, place = JsonObject(followed.state), place + step
        assert followed.complete is whole


@pytest.mark.parametrize(
    "text",
    ["a < b and [1, 2]", "<b>bold</b>", "List<String>", "[TODO]", "x <- y", "<|", "if (a <b) {} // c>", "`<div class=x>`", "◁"],
)  # fmt: skip
def test_prose_and_code_hold_no_markup(text: str) -> None:
    assert not has_markup(text)
    assert without_markup(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "<think>", "</tool_call>", "<｜tool▁calls▁begin｜>", "<|tool_call_begin|>", "<|channel|>final<|message|>", "<tool_call|>",
        "[TOOL_CALLS]", "[/THINK]", "</parameter>", "<function=f>", "<minimax:tool_call>", "<|open|>response<|sep|>", "◁think▷",
        "<ifm|tool_calls>", "<start_function_call>", "<｜DSML｜invoke", "<arg_key>", "<|plamo:begin_tool_request:plamo|>",
    ],
)  # fmt: skip
def test_markup_is_recognized(text: str) -> None:
    assert len(text) <= LONGEST
    assert has_markup(f"so {text} it is")


@pytest.mark.parametrize(
    "audit",
    [
        -1, 512, True, 1.5, "1", {}, [], [1], [512, ""], [0, None], [0, 1], [0, "x:{"], [0, "{"], [0, "0:" + "{" * 999], [0, ["0:"]],
        [0, "", "", "", ""], [0, "", "", "", "", "", ""], [0, "", "", "", "", 1], [0, "", "x" * 999, "", "", ""],
    ],
)  # fmt: skip
def test_an_audit_that_was_never_saved_is_refused(load: Callable[..., Model], audit: Any) -> None:
    model = load("qwen3", "hermes", None)
    body = {
        "stream": True, "generate_chunk": {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707]}]},
        "chat_request": REQUEST, "prompt_token_ids": PROMPT,
    }  # fmt: skip
    state = derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))["stream_state"]
    parts = unpack(state["checkpoint"], Limits.of_model_len(model.limits.max_model_len))
    parts[2] = audit
    state["checkpoint"] = pack(parts)
    with pytest.raises(InvalidState):
        derender_chat_stream(model, DerenderChatStreamRequest.model_validate({**body, "stream_state": state}))
