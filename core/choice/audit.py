"""What is wrong with a finished choice: answers that were lost on the way from text to message.

A parser that does not fit its model fails without a word: an answer is empty,
a call has no arguments, markup stands in the text. Every parsed choice is
looked at when it ends, whole or streamed, and nothing about it is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from core.choice.json_object import MAX_STATE, JsonObject
from core.choice.markers import LONGEST, has_markup, without_markup
from core.choice.output import ToolCall
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

_MARKED, _UNKNOWN = 1 << KINDS.index(MARKUP), 1 << KINDS.index(UNKNOWN_TOOL)
_WORD = re.compile(r"\w{2,}")


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


def audit_message(text: str, message: Message, expected: Expected) -> tuple[str, ...]:
    """The kinds of what is wrong with a whole choice, in the order of ``KINDS``. ``text`` is all that was decoded."""
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
    tail = text[-2 * LONGEST :]
    found |= _lost(has_text, shown, bool(calls), tail, (content or "", reasoning or ""), finish_reason, expected)
    return tuple(kind for kind in KINDS if kind in found)


def is_object(arguments: str | None) -> bool:
    """Whether a call's arguments are the text of a JSON object."""
    try:
        return isinstance(json.loads(arguments or ""), dict)
    except (ValueError, RecursionError):
        return False


def _lost(
    has_text: bool,
    shown: bool,
    called: bool,
    tail: str,
    visible: tuple[str, str],
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
    words = _WORD.findall(without_markup(tail)[-LONGEST:])
    # The first word of the tail may be cut.
    return {HELD} if words and not any(words[-1] in part[-2 * LONGEST :] for part in visible) else set()


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

    def end(self, finish_reason: str | None) -> tuple[str, ...]:
        return audit_message(self.text, self._joined(finish_reason), self._expected)

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
        self._has_text = self._shown = self._called = False
        self._tails = ["", "", ""]  # of the text, of content, of reasoning
        self._open: dict[int, JsonObject] = {}
        if saved is not None:
            self._load(saved)

    def see(self, text: str, content: str | None, reasoning: str | None, calls: Sequence[ToolCall]) -> None:
        """Take what one chunk said; ``text`` is what was decoded of it."""
        tails = self._tails
        if text:
            if not self._has_text:
                self._has_text = bool(without_markup(text).strip())
            tails[0] = (tails[0] + text)[-2 * LONGEST :]
        for place, part in ((1, content), (2, reasoning)):
            if part:
                if not self._shown:
                    self._shown = bool(part.strip())
                joined = tails[place] + part
                if not self._found & _MARKED and has_markup(joined[-LONGEST - len(part) :]):
                    self._found |= _MARKED
                tails[place] = joined[-2 * LONGEST :]
        for call in calls:
            self._see_call(call)

    def _see_call(self, call: ToolCall) -> None:
        self._shown = self._called = True
        function = call["function"]
        if function is None:
            return
        if function["name"] and function["name"] not in self._expected.tools:
            self._found |= _UNKNOWN
        known = self._open.setdefault(call.get("index", 0), JsonObject())
        known.feed(function["arguments"] or "")

    def end(self, finish_reason: str | None) -> tuple[str, ...]:
        """The kinds of what is wrong, in the order of ``KINDS``. Changes nothing."""
        found = {kind for place, kind in enumerate(KINDS) if self._found >> place & 1}
        if finish_reason != "length" and not all(known.complete for known in self._open.values()):
            found.add(ARGUMENTS)
        text, content, reasoning = self._tails
        found |= _lost(
            self._has_text, self._shown, self._called, text, (content, reasoning), finish_reason, self._expected
        )
        return tuple(kind for kind in KINDS if kind in found)

    def save(self) -> JsonValue:
        """JSON values for a checkpoint. Calls that are complete need not be remembered, but for the last one."""
        flags = self._has_text + 2 * self._shown + 4 * self._called
        calls: list[JsonValue] = []
        if self._open:
            last = max(self._open)
            calls = [[i, known.state] for i, known in self._open.items() if not known.complete or i == last]
        return [self._found, flags, *self._tails, calls]

    def _load(self, saved: JsonValue) -> None:
        kinds, flags, *tails, calls = saved
        if not (_is_count(kinds, 1 << len(KINDS)) and _is_count(flags, 8) and len(tails) == 3):
            raise ValueError("not an audit")
        for tail in tails:
            if not isinstance(tail, str) or len(tail) > 2 * LONGEST:
                raise ValueError("not an audit")
        for index, state in calls:
            if not _is_count(index, 2**31) or not (
                state is None or (isinstance(state, str) and len(state) <= MAX_STATE)
            ):
                raise ValueError("not an audit")
            self._open[index] = JsonObject(state)
        self._found = kinds
        self._has_text, self._shown, self._called = bool(flags & 1), bool(flags & 2), bool(flags & 4)
        self._tails = tails


def _is_count(value: JsonValue, limit: int) -> bool:
    return type(value) is int and 0 <= value < limit
