"""What is wrong with a finished choice: answers that were lost on the way from text to message.

A parser that does not fit its model fails without a word: an answer is empty,
a call has no arguments, markup stands in the text. Every parsed choice is
looked at when it ends, whole or streamed, and nothing about it is changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import orjson

from core.choice.json_object import MAX_STATE, JsonObject
from core.choice.markers import has_markup, may_begin_markup, open_markup, without_markup
from core.choice.output import ToolCall
from core.choice.shown_end import MAX_SHOWN, TOGETHER, ShownEnd
from core.json import JsonValue

VANISHED = "vanished"
MARKUP = "markup"
HELD = "held"
ARGUMENTS = "arguments"
UNKNOWN_TOOL = "unknown_tool"
SPLIT = "split"
KINDS = (VANISHED, MARKUP, HELD, ARGUMENTS, UNKNOWN_TOOL, SPLIT)
"""``vanished``: there was text, and nothing is shown. ``markup``: a model's markup in visible text or reasoning.
``held``: the end of the text is not shown. ``arguments``: of a call, that are no JSON object. ``unknown_tool``: a call
of a tool that was not offered. ``split``: the stream says something else than the whole output does."""

_NEVER = "-"  # the state of what is no object any more
_ALL = (1 << len(KINDS)) - 1
_MARKED, _UNKNOWN = 1 << KINDS.index(MARKUP), 1 << KINDS.index(UNKNOWN_TOOL)


@dataclass(frozen=True)
class Expected:
    """What a request says about its answer that the audit needs."""

    tools: frozenset[str]
    hides_reasoning: bool


def expected_of(chat_request: Any) -> Expected:
    """Read vLLM's validated request."""
    names = (name for tool in chat_request.tools or () for name in _names(tool))
    return Expected(frozenset(filter(None, names)), not chat_request.include_reasoning)


def _names(tool: Any) -> list[str | None]:
    """By which names a tool is called: a chat's, one of Responses, or a namespace of several."""
    if getattr(tool, "type", None) == "namespace":
        return [f"{tool.name}__{inner.name}" for inner in tool.tools]
    return [getattr(getattr(tool, "function", tool), "name", None)]


class Message(Protocol):
    """A whole choice, as a parser made it."""

    @property
    def content(self) -> str | None: ...

    @property
    def reasoning(self) -> str | None: ...

    @property
    def tool_calls(self) -> Sequence[Any]: ...

    @property
    def finish_reason(self) -> str | None: ...


def audit_message(text: str, message: Message, expected: Expected, end: ShownEnd | None = None) -> tuple[str, ...]:
    """The kinds of what is wrong with a whole choice, in the order of ``KINDS``. ``text`` is all that was decoded.

    ``end`` followed it, where it came in chunks.
    """
    content, reasoning, calls, finish_reason = (
        message.content,
        message.reasoning,
        message.tool_calls,
        message.finish_reason,
    )
    found = set()
    if has_markup(content or "") or has_markup(reasoning or ""):
        found.add(MARKUP)
    for call in calls:
        function = call["function"]
        name = function["name"] if function is not None else None
        if name not in expected.tools:
            found.add(UNKNOWN_TOOL)
        if finish_reason != "length" and not is_object(function["arguments"] if function is not None else None):
            found.add(ARGUMENTS)
    shown = bool((content or "").strip() or (reasoning or "").strip() or calls)
    # Not asked where it does not count: most answers show something.
    has_text = shown or bool(without_markup(text).strip())
    if end is None:
        asked = not calls and not expected.hides_reasoning
        end = TOGETHER.after(text, content, reasoning) if asked else TOGETHER
    found |= _lost(has_text, shown, bool(calls), end, finish_reason, expected)
    return tuple(kind for kind in KINDS if kind in found)


def is_object(arguments: str | None) -> bool:
    """Whether a call's arguments are the text of a JSON object."""
    text = arguments or ""
    # The first is fast; the second reads all that vLLM's parsers write: NaN, any integer.
    for loads in (orjson.loads, json.loads):
        try:
            return isinstance(loads(text), dict)
        except (ValueError, RecursionError):
            continue
    return False


def _lost(
    has_text: bool,
    shown: bool,
    called: bool,
    end: ShownEnd,
    finish_reason: str | None,
    expected: Expected,
) -> set[str]:
    """Whether all of a text was lost, or its end."""
    if expected.hides_reasoning and finish_reason == "length":
        return set()  # it may all be reasoning, which was not asked for
    if has_text and not shown:
        return {VANISHED}
    if called or expected.hides_reasoning:
        return set()  # what ends a call is markup, and hidden reasoning is held rightly
    return {HELD} if end.held else set()


class Audit(Protocol):
    """The audit of a choice that comes in chunks."""

    def see(self, text: str, content: str | None, reasoning: str | None, calls: Sequence[ToolCall]) -> None:
        """Take what one chunk said; ``text`` is what was decoded of it."""
        ...

    def end(self, finish_reason: str | None) -> tuple[str, ...]:
        """The kinds of what is wrong, in the order of ``KINDS``. Changes nothing."""
        ...

    def save(self) -> JsonValue:
        """JSON values for a checkpoint. Changes nothing."""
        ...


class _Joined(NamedTuple):
    content: str
    reasoning: str
    tool_calls: Sequence[Any]
    finish_reason: str | None


def _said(message: Message) -> tuple[str, str, list[tuple[str, str]]]:
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.tool_calls]
    return (message.content or "").strip(), (message.reasoning or "").strip(), calls


class GatheredAudit:
    """The audit of a choice whose chunks all pass through here: they are gathered, and looked at in the end."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._text: list[str] = []
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, tuple[list[str], list[str]]] = {}
        self._end = TOGETHER

    def see(self, text: str, content: str | None, reasoning: str | None, calls: Sequence[ToolCall]) -> None:
        self._text.append(text)
        if content:
            self._content.append(content)
        if reasoning:
            self._reasoning.append(reasoning)
        for call in calls:
            names, arguments = self._calls.setdefault(call.get("index", 0), ([], []))
            function = call["function"]
            if function is not None:
                names.append(function["name"] or "")
                arguments.append(function["arguments"] or "")
        if not self._calls and not self._expected.hides_reasoning:
            self._end = self._end.after(text, content, reasoning)

    def end(self, finish_reason: str | None) -> tuple[str, ...]:
        return audit_message(self.text, self._joined(finish_reason), self._expected, self._end)

    @property
    def text(self) -> str:
        """All that was decoded."""
        return "".join(self._text)

    def says(self, message: Message) -> bool:
        """Whether the chunks joined say what a whole choice says, white space at the ends of text apart."""
        return _said(self._joined(None)) == _said(message)

    def _joined(self, finish_reason: str | None) -> _Joined:
        calls = [
            {"function": {"name": "".join(names), "arguments": "".join(arguments)}}
            for names, arguments in self._calls.values()
        ]
        return _Joined("".join(self._content), "".join(self._reasoning), calls, finish_reason)

    def save(self) -> JsonValue:
        return None


class RunningAudit:
    """The audit of a choice that comes in chunks; what it remembers does not grow with the choice.

    ``saved`` is what :meth:`save` gave after the chunk before.

    Raises:
        ValueError: ``saved`` is nothing that was saved.
    """

    def __init__(self, expected: Expected, saved: JsonValue = None) -> None:
        self._expected = expected
        self._found = 0  # by the bit of each kind
        # ``has_text`` is not looked for any more where something is shown.
        self._has_text = self._shown = self._called = False
        # The ends of content and reasoning, where markup may have begun.
        self._content_end = self._reasoning_end = ""
        self._end = TOGETHER
        self._open: dict[int, JsonObject] = {}
        if saved is not None:
            self._load(saved)

    def see(self, text: str, content: str | None, reasoning: str | None, calls: Sequence[ToolCall]) -> None:
        """Take what one chunk said; ``text`` is what was decoded of it."""
        if content:
            self._content_end = self._see_part(self._content_end, content)
        if reasoning:
            self._reasoning_end = self._see_part(self._reasoning_end, reasoning)
        for call in calls:
            self._see_call(call)
        if not self._shown and not self._has_text:
            self._has_text = bool(without_markup(text).strip())
        if not self._called and not self._expected.hides_reasoning:
            self._end = self._end.after(text, content, reasoning)

    def _see_part(self, begun: str, part: str) -> str:
        """Take a part of the content, or of the reasoning, which ``begun`` may begin markup; what may after it."""
        if not self._shown:
            self._shown = bool(part.strip())
        if not begun and not may_begin_markup(part):
            return ""
        joined = begun + part
        if has_markup(joined):
            self._found |= _MARKED
        return open_markup(joined)

    def _see_call(self, call: ToolCall) -> None:
        if not self._called:
            self._shown = self._called = True
            self._end = TOGETHER  # what ends a call is markup
        function = call["function"]
        if function is None:
            return
        if function["name"] and function["name"] not in self._expected.tools:
            self._found |= _UNKNOWN
        index = call.get("index", 0)
        known = self._open.get(index)
        if known is None:
            # Calls that are complete need not be remembered, but for the last one.
            self._open = {i: other for i, other in self._open.items() if not other.complete}
            known = self._open[index] = JsonObject()
        known.feed(function["arguments"] or "")

    def end(self, finish_reason: str | None) -> tuple[str, ...]:
        """The kinds of what is wrong, in the order of ``KINDS``. Changes nothing."""
        found = {kind for place, kind in enumerate(KINDS) if self._found >> place & 1}
        if finish_reason != "length" and not all(known.complete for known in self._open.values()):
            found.add(ARGUMENTS)
        found |= _lost(self._has_text, self._shown, self._called, self._end, finish_reason, self._expected)
        return tuple(kind for kind in KINDS if kind in found)

    def save(self) -> JsonValue:
        """JSON values for a checkpoint, few and short: they are packed with every chunk.

        A number for what was found and seen; where there is more to remember a list, of the number, the
        index and the state of each call as a text, and where there are any, the texts that may go on.
        """
        flags = self._has_text | self._shown << 1 | self._called << 2
        bits = self._found | flags << len(KINDS)
        content, reasoning, end = self._content_end, self._reasoning_end, self._end
        calls = " ".join(
            [f"{index}:{_NEVER if open.state is None else open.state}" for index, open in self._open.items()]
        )
        if end.text or content or reasoning:
            return [bits, calls, content, reasoning, end.text, end.shown]
        return [bits, calls] if calls else bits

    def _load(self, saved: JsonValue) -> None:
        parts: Any = (saved, "") if type(saved) is int else saved
        bits, calls, *texts = parts
        if not _is_count(bits, 8 << len(KINDS)):
            raise ValueError("not an audit")
        if texts:
            content, reasoning, text, shown = texts
            if any(type(part) is not str or len(part) > MAX_SHOWN for part in texts):
                raise ValueError("not an audit")
            self._content_end, self._reasoning_end, self._end = content, reasoning, ShownEnd(text, shown)
        for call in calls.split():
            index, _, state = call.partition(":")
            if len(state) > MAX_STATE:
                raise ValueError("not an audit")
            self._open[int(index)] = JsonObject(None if state == _NEVER else state)
        self._found = bits & _ALL
        flags = bits >> len(KINDS)
        self._has_text, self._shown, self._called = flags & 1 == 1, flags & 2 == 2, flags & 4 == 4


def _is_count(value: JsonValue, limit: int) -> bool:
    return type(value) is int and 0 <= value < limit
