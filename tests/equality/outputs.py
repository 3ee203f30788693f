"""What models write: for each pair of parsers outputs in its family's own form, by name.

The forms are those of ``tests/checkpoint/formats.py``; the outputs that ``tests/slice/parity`` holds for a pair come
after them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.checkpoint.formats import (
    ALONE,
    CONTENT,
    REASONING,
    THINK,
    TOOL_WRITERS,
    Call,
    Writer,
    dump,
    json_array,
)
from tests.slice.parity.inputs import OUTPUTS as RECORDED

Pair = tuple[str | None, str | None]
AUTO: Mapping[str, Any] = MappingProxyType({"tool_choice": "auto"})
NONE = {"tool_choice": "none"}
REQUIRED = {"tool_choice": "required"}
NAMED = {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
    for name, properties in {
        "get_weather": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "opts": {"type": "object", "properties": {"unit": {"type": "string"}}},
        },
        "search": {
            "query": {"type": "string"},
            "limit": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "flag": {"type": "boolean"},
        },
        "write_file": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "integer"}},
            "append": {"type": "boolean"},
        },
        "noop": {},
    }.items()
]
CODE = 'def f(x):\n    """Say "hi"."""\n    return {"a\\t": [x, 1.5e3], "ü": \'🌦️\'}\n'
NESTED = Call("get_weather", {"city": "São Paulo — 東京 🌦️", "days": 3, "opts": {"unit": "c", "deep": [1, {"b": None}]}})
WRITTEN = Call("write_file", {"path": "a/b.py", "content": CODE, "lines": [1, 2, 3], "append": True})
PLAIN = Call("get_weather", {"city": "Oslo", "days": 0})
EMPTY = Call("noop", {})
ODD = Call("search", {"query": "\\u00e9 \\\\ \" {[(,; <b> & 'x'", "limit": -1, "tags": []})
LETTERS = Call("get_weather", {"city": "Zürich", "days": 1})
REASONED = "Let me think: 2 < 3, and a <b> tag, then </thi nothing.\nThe user wants 天気 🤔. <tool_c is partial. "
SAID = "Sure — I check: 1 < 2 🌍, `x`, $y$ and \\n.\n"
# These models make one call at a time.
SINGLE = frozenset({"gigachat3", "internlm"})
THINKING = {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}
# Opening and closing of text, where the family marks it, by tool or reasoning parser.
SPOKEN = {
    "inkling": ("<|content_text|>", "<|end_message|>"),
    "kimi_k3": ("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    **dict.fromkeys(("muse", "muse_glimmer", "musespark1x"), ("to=user<|message|>", "<|eom|>")),
}


class Output(NamedTuple):
    """One output and what goes with it.

    ``keep`` is the part of the tokens that was generated, the rest cut off;
    ``opened`` is what ends the prompt; ``fields`` are the request's besides
    its tools. ``complete`` says that the text holds what ends it.
    """

    name: str
    text: str
    fields: Mapping[str, Any] = AUTO
    keep: float = 1.0
    opened: str = ""
    complete: bool = False

    @property
    def finish(self) -> str:
        return "stop" if self.keep == 1.0 else "length"


def outputs(pair: Pair, folder: str) -> Iterator[Output]:
    """The outputs of a pair, each with the fields of its request."""
    yield Output("prose", _said(pair, first=True))
    if pair[1] is not None:
        yield from _reasoned(pair)
    if pair[0] is not None:
        yield from _called(pair, TOOL_WRITERS[pair[0]] if folder != "mistral-spm" else json_array("[TOOL_CALLS]"))
    for number, text in enumerate(RECORDED.get(f"{folder}|{pair[0]}|{pair[1]}", ())):
        yield Output(f"of the parity tests, {number + 1}", text, complete=True)
    array = dump([{"name": "get_weather", "parameters": PLAIN.arguments}])
    yield Output("forced: JSON array", _thought(pair, "Hm.") + array, _fields(pair, REQUIRED))
    yield Output("named: JSON arguments", _thought(pair, "Hm.") + dump(LETTERS.arguments), _fields(pair, NAMED))


def _fields(pair: Pair, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where the output reasons, the request asks for it, in the words of every family."""
    return fields if pair[1] is None else {**fields, "chat_template_kwargs": THINKING}


def _thought(pair: Pair, text: str) -> str:
    opening, closing = REASONING.get(pair[1] or "", THINK)
    return opening + text + closing if pair[1] is not None else ""


def _reasoned(pair: Pair) -> Iterator[Output]:
    opening, _ = REASONING.get(pair[1] or "", THINK)
    text = _thought(pair, REASONED) + _said(pair)
    asked = _fields(pair, AUTO)
    yield Output("reasoning, text", text, asked)
    yield Output("reasoning, cut", _thought(pair, REASONED), asked, keep=0.6)
    yield Output("reasoning not asked for", text)
    yield Output("reasoning not shown", text, {**asked, "include_reasoning": False})
    yield Output("thinking off", _said(pair, first=True), {**AUTO, "chat_template_kwargs": {"enable_thinking": False}})
    if pair[1] != "openai_gptoss":
        yield Output("reasoning opened by the prompt", text.removeprefix(opening), asked, opened=opening)


def _called(pair: Pair, writer: Writer) -> Iterator[Output]:
    thought, hm = _thought(pair, REASONED), _thought(pair, "Hm.")
    spoken = "" if pair[0] in ALONE else _said(pair, first=not thought)
    auto, required, named = (_fields(pair, fields) for fields in (AUTO, REQUIRED, NAMED))

    def after(before: str, *calls: Call) -> str:
        # The start of a first harmony message is in the prompt.
        return before + writer(calls) if before else writer(calls).removeprefix("<|start|>assistant")

    yield Output("one call", after(hm, NESTED), auto)
    yield Output("call without arguments", after(hm, EMPTY), auto)
    yield Output("odd characters", after(hm, ODD), auto)
    yield Output("escaped letters", after(hm, LETTERS).replace("ü", "\\u00fc"), auto)
    yield Output("text, call", after(thought + spoken, NESTED), auto)
    yield Output("call, text behind", after(hm, PLAIN) + "\n" + _said(pair), auto)
    yield Output("call, cut", after(hm, NESTED), auto, keep=0.75)
    if pair[0] not in SINGLE:
        yield Output("two calls", after(hm, WRITTEN, PLAIN), auto)
        yield Output("second call, cut", after(hm, PLAIN, WRITTEN), auto, keep=0.85)
        yield Output("two calls, one allowed", after(hm, PLAIN, EMPTY), {**auto, "parallel_tool_calls": False})
    if thought:
        yield Output("call without reasoning", after("", PLAIN))
    yield Output("none: one call", after(hm, PLAIN), _fields(pair, NONE))
    yield Output("forced: own form", after(hm, PLAIN), required)
    yield Output("named: own form", after(hm, PLAIN), named)


def _said(pair: Pair, first: bool = False) -> str:
    """Text for the user; ``first``, where nothing of the output is before it."""
    tool, reasoning = pair
    if reasoning == "openai_gptoss" or tool == "openai":
        opening, closing = CONTENT["openai_gptoss"]
        return (opening.removeprefix("<|start|>assistant") if first else opening) + SAID + closing
    opening, closing = SPOKEN.get(reasoning or tool or "", ("", ""))
    # What closes the reasoning opens the text.
    return (opening if first else "") + SAID + closing


def request(output: Output) -> dict[str, Any]:
    """The chat request of an output; a new copy each time."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **output.fields}
    return dict(json.loads(json.dumps(body)))
