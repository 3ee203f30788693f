"""A repaired reading: what a parser says of an output, held against the text that it was said of.

The parser is shown one token at a time, and its end by itself, so that
nothing depends on how an engine cuts its chunks. What it says is let out when
it is certain:

* content and reasoning at once, white space when something else follows it;
* a call when its arguments are an object, whole, in one piece. Where the model
  wrote an object, the call ends with it, whatever the parser took for the end;
* text of which the parser says nothing, as the calls that can be read in it,
  or as content: before the next content where no calls are asked for, else at
  the end.

A call that was cut is no call. Its text is shown where nothing else would be.
"""

from __future__ import annotations

import re
import secrets
from typing import Any, NamedTuple

from core.choice.asked import Asked
from core.choice.markers import CALLS_BEGIN, has_markup
from core.choice.open_call import OpenCall
from core.choice.output import ToolCall
from core.choice.passed_over import is_rest, is_text, split_thought, without_endings
from core.choice.written_call import Call, as_text, begins_arguments, named_call, offered, read_calls, settled
from core.choice.written_object import ObjectEnd, read_object
from core.json import JsonValue

_CALLS_BEGIN = re.compile(CALLS_BEGIN)


class Said(NamedTuple):
    """What is let out: each call whole, with an index of its own."""

    content: str | None
    reasoning: str | None
    calls: list[ToolCall]


class Repair:
    """The reading of one choice. ``saved`` is what :meth:`save` gave.

    Raises:
        ValueError: ``saved`` is nothing that was saved.
    """

    def __init__(self, asked: Asked, saved: JsonValue = None) -> None:
        self._asked = asked
        self._parts: list[str] = []
        self._kept: list[str] = []
        self._over = self._cut = False
        self._space = ""
        self._open: OpenCall | None = None
        self._ignored = -1
        self.sent = 0
        self._visible = self._told = False
        # The parser raised an error: it says nothing any more.
        self.broken = False
        self.reasoning_tokens = 0
        # The lengths of the tokens' texts since something was said, to count those of reasoning.
        self._held: list[int] = []
        self._begin()
        if saved is not None:
            self._load(saved)

    @property
    def _raw(self) -> str:
        """The text of which nothing was said yet."""
        if len(self._parts) != 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]

    @_raw.setter
    def _raw(self, text: str) -> None:
        self._parts = [text]

    def _begin(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []

    def take(self) -> Said:
        """What was said since it was last taken."""
        said = Said("".join(self._content) or None, "".join(self._reasoning) or None, self._calls)
        self._begin()
        return said

    # -- what comes in

    def see(self, text: str, delta: Any) -> None:
        """Take one token's text and vLLM's ``DeltaMessage`` for it, or None."""
        self._parts.append(text)
        if self._open is None:
            self._held.append(len(text))
        if delta is not None:
            self._hear(delta)
        if self._open is not None:
            self._follow(self._open, text)

    def end(self, delta: Any, finish_reason: str | None) -> None:
        """Take what the parser says at the end, and let out what is left."""
        cut = self._cut = finish_reason == "length"
        self._over = True
        if delta is not None:
            # Of a call that was cut a parser makes a whole one at the end: it is none.
            self._hear(delta, calls=not cut)
        known, self._open = self._open, None
        if known is not None:
            self._close(known, known.complete and not (cut and known.within))
        self._finish(hides_calls=cut and (self._told or self.sent > 0))

    def _hear(self, delta: Any, *, calls: bool = True) -> None:
        if delta.reasoning:
            self._see_reasoning(delta.reasoning)
        if delta.content:
            self._see_content(delta.content)
        for part in delta.tool_calls or () if calls else ():
            self._see_call(part)

    def _see_reasoning(self, text: str) -> None:
        if self._asked.answers_at_once:
            self._see_content(text)
            return
        if self._doubt(text):
            return
        self._account(text, reasoning=True)
        self._think(text)

    def _think(self, text: str) -> None:
        if not self._asked.hides_reasoning:
            self._reasoning.append(text)
        self._visible = True

    def _see_content(self, text: str) -> None:
        if self._doubt(text):
            return
        self._lose(self._account(text))
        self._say(text)

    def _say(self, text: str) -> None:
        if not text.strip():
            self._space += text
            return
        if self._asked.calls and (self._kept or self._asked.forced is not None or _CALLS_BEGIN.search(text)):
            # The parser lets calls through as text: whether they can be read is known at the end.
            text = self._keep(text)
            if not text:
                return
        self._content.append(self._space + text)
        self._space = ""
        self._visible = self._told = True

    def _keep(self, text: str) -> str:
        """Keep a text from where calls begin in it; what comes before that."""
        begins = None if self._kept or self._asked.forced is not None else _CALLS_BEGIN.search(text)
        place = 0 if begins is None else begins.start()
        if place == 0:
            self._kept.append(self._space)
            self._space = ""
        self._kept.append(text[place:])
        return text[:place]

    def _see_call(self, part: Any) -> None:
        function = part.function
        name = (function.name if function is not None else None) or ""
        arguments = (function.arguments if function is not None else None) or ""
        known = self._open
        if known is not None and part.index != known.index:
            if known.within:
                known.doubted = True
                return
            self._open = None
            self._close(known, known.complete)
            known = None
        if known is None:
            if part.index <= self._ignored:
                return
            known = self._open = OpenCall(part.index)
        known.id = known.id or part.id
        known.name = known.name or name
        known.say(arguments)

    def _doubt(self, text: str) -> bool:
        """Whether a text stands within the object of a call, or beside one that is not over; closes one that is."""
        known = self._open
        if known is None:
            return False
        if known.within:
            known.doubted = True
            return True
        if not text.strip():
            return True
        self._open = None
        self._close(known, known.complete, max(self._raw.rfind(text), 0))
        return False

    # -- the text behind it

    def _account(self, text: str, *, reasoning: bool = False) -> str:
        """Strike a piece from the text of which nothing was said yet; what was passed over, where it is text."""
        place = self._raw.find(text)
        if reasoning:
            self.reasoning_tokens += self._tokens_behind(max(place, 0))
        self._held.clear()
        if place < 0:
            self._raw = ""  # the parser changed it
            return ""
        passed, self._raw = self._raw[:place], self._raw[place + len(text) :]
        return passed if not self._asked.calls and is_text(passed) else ""

    def _tokens_behind(self, place: int) -> int:
        """How many of the tokens since something was said stand behind a place of the text."""
        end, count = len(self._raw), 0
        for length in reversed(self._held):
            begin = end - length
            count += end > place or begin == end == place
            end = begin
        return count

    def _follow(self, known: OpenCall, text: str) -> None:
        """See whether a call is complete: its object in the text, or the parser's word where there is none."""
        if known.written is not None:
            known.written.feed(text)
        elif not known.unwritten and known.name and (start := self._raw.find("{")) >= 0:
            raw = self._raw
            known.unwritten = not begins_arguments(raw[:start], known.name)
            if not known.unwritten:
                known.written = ObjectEnd(start)
                known.written.feed(raw[start:])
        if known.written is not None and known.written.failed:
            known.written, known.unwritten = None, True
        if known.name and known.complete and not known.within:
            self._open = None
            self._close(known, complete=True)

    def _close(self, known: OpenCall, complete: bool, size: int | None = None) -> None:
        """Let out a call that is over, or the text of one that is none: so many characters, or all."""
        self._ignored = known.index
        arguments = self._arguments(known)
        if arguments is None and complete:
            arguments = known.arguments
            self._raw = self._behind(arguments) if size is None else self._raw[size:]
        if arguments is not None:
            self._call(known.id, known.name, arguments)
        elif size is not None or not self._over:
            lost = self._raw[:size]
            self._raw = self._raw[len(lost) :]
            self._lose(lost)

    def _behind(self, arguments: str) -> str:
        """The text behind the arguments of a call that only the parser took for complete."""
        raw = self._raw
        place = raw.find(arguments) if self._over else -1
        return "" if place < 0 else raw[place + len(arguments) :]

    def _lose(self, text: str) -> None:
        """Let out a text that the parser took for something else: the calls in it, or itself."""
        if calls := self._calls_in(text):
            for call in calls:
                self._call(None, call.name, as_text(call.arguments))
        elif is_text(text) and not (self._asked.one_call and self.sent and _may_call(text)):
            self._say(without_endings(text, markup=self.sent > 0))

    def _arguments(self, known: OpenCall) -> str | None:
        """The arguments that the model wrote, as the text of an object; strikes them from the text."""
        written = known.written
        if written is None or written.end is None:
            return None
        value = read_object(self._raw[written.start : written.end])
        if value is None:
            return None
        if known.name not in self._raw[: written.start]:
            named = named_call(value, self._asked.tools)
            if named is not None and offered(named.name, self._asked.tools):
                known.name, value = named.name, named.arguments
            elif self._asked.tools.get(known.name) is None or not known.complete:
                return None
        self._raw = self._raw[written.end :]
        parsed = read_object(known.arguments) if known.complete and not known.doubted else None
        value = settled(value if parsed is None else parsed, value, self._asked.tools.get(known.name))
        return known.arguments if value == parsed else as_text(value)

    def _call(self, call_id: str | None, name: str, arguments: str) -> None:
        if not self._told:
            self._space = ""
        self._visible = True
        self._held.clear()
        if not self._asked.calls or (self._asked.one_call and self.sent):
            return
        function: Any = {"name": offered(name, self._asked.tools) or name, "arguments": arguments}
        call_id = call_id or f"chatcmpl-tool-{secrets.token_hex(16)}"
        self._calls.append({"id": call_id, "type": "function", "index": self.sent, "function": function})
        self.sent += 1

    def _calls_in(self, text: str) -> list[Call]:
        """The calls that can be read in a text, where there may be any."""
        if not self._asked.calls:
            return []
        tools = self._asked.tools
        calls = [
            call._replace(arguments=settled(call.arguments, call.arguments, tools.get(call.name)))
            for call in read_calls(text, tools, cut=self._cut)
        ]
        if not calls and self._asked.forced:
            arguments = read_object(text.strip())
            return [] if arguments is None else [Call(self._asked.forced, arguments)]
        return calls

    def _finish(self, *, hides_calls: bool) -> None:
        """Let out what nothing was said of, but for a call that was cut where anything else is shown."""
        thought, left = split_thought(self._raw)
        self._raw = ""
        if thought.strip() and not self._asked.answers_at_once:
            self._think(thought)
        if calls := self._calls_in(left):
            left = ""
        for call in calls:
            self._call(None, call.name, as_text(call.arguments))
        rest = self.sent > 0 and (is_rest(left) or (self._asked.one_call and _may_call(left)))
        if not rest and not (hides_calls and _may_call(left)):
            self._lose(left)
        kept, self._kept = "".join(self._kept), []
        calls = self._calls_in(kept)
        if kept and not calls and not (self.sent and not is_text(kept)):
            self._content.append(kept)
        for call in calls:
            self._call(None, call.name, as_text(call.arguments))
        if self._space and not self.sent:
            self._content.append(self._space)

    # -- between calls of a client

    def save(self) -> JsonValue:
        """JSON values for a checkpoint. Changes nothing; only between :meth:`take` and what comes next."""
        opened = None if self._open is None else self._open.save()
        flags = self._visible + 2 * self._told + 4 * self.broken
        counts = [self._ignored, self.sent, self.reasoning_tokens, flags]
        return [self._raw, self._space, "".join(self._kept), opened, list(self._held), *counts]

    def _load(self, saved: JsonValue) -> None:
        raw, space, kept, opened, lengths, *counts = saved
        if not all(isinstance(text, str) for text in (raw, space, kept)):
            raise ValueError("not a reading")
        ignored, sent, tokens, flags = counts
        if not all(type(count) is int and -1 <= count < 2**31 for count in (*counts, *lengths)):
            raise ValueError("not a reading")
        self._kept = [kept] if kept else []
        self._raw, self._space, self._visible, self._told = raw, space, bool(flags & 1), bool(flags & 2)
        self.broken = bool(flags & 4)
        self._ignored, self.sent, self.reasoning_tokens, self._held = ignored, sent, tokens, lengths
        if opened is not None:
            self._open = OpenCall.load(opened, len(raw))


def _may_call(text: str) -> bool:
    """Whether a text may be of a call that is not to be shown: one that was cut, or one too many."""
    return "{" in text or "(" in text or has_markup(text)
