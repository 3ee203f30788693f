"""Objects as models write them: JSON, and what is like it: bare keys and words, other quotes, a comma too many.

What is read is what stands there. Nothing that is missing is made up: an
object whose end is not there is no object.
"""

from __future__ import annotations

import json
import re
from typing import Any

# A string may stand in each of these; the first two know escapes, the others end where they stand again.
_QUOTES = ('"', "'", '<|"|>', "<escape>")
_DEEPEST = 128
_PAIRS = {"}": "{", "]": "["}
_SPACE = re.compile(r"\s*")
_PLAIN = re.compile(r"[^\"'<{}\[\]\\]+")
_BARE = re.compile(r"[^,:{}\[\]\"<]+")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


class ObjectEnd:
    """Finds the end of an object whose text comes in pieces; it begins at ``start`` of another text.

    ``end`` is where it ends there, behind its last bracket. ``failed`` says
    that it cannot become an object any more. What is remembered between two
    pieces is a few characters.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self._read = 0
        self._rest = ""
        self._place = 0
        self._stack = self._quote = self._last = ""
        self.end: int | None = None
        self.failed = False

    def save(self) -> list[Any]:
        return [self.start, self._read, self._rest, self._stack, self._quote, self._last, self.end]

    @classmethod
    def load(cls, saved: Any, size: int) -> ObjectEnd:
        """One that was saved, within a text of ``size`` characters.

        Raises:
            ValueError: it is nothing that was saved.
        """
        start, read, rest, stack, quote, last, end = saved
        counts = type(start) is type(read) is int and start >= 0 and read >= 0
        texts = all(isinstance(text, str) for text in (rest, stack, last)) and quote in ("", *_QUOTES)
        if not (counts and texts) or len(stack) > _DEEPEST or set(stack) - set("{["):
            raise ValueError("not an object on its way")
        if start + read + len(rest) > size or not (end is None or (type(end) is int and start < end <= size)):
            raise ValueError("not an object on its way")
        known = cls(start)
        known._read, known._rest, known._stack, known._quote, known._last = read, rest, stack, quote, last
        known.end = end
        return known

    def feed(self, piece: str) -> None:
        """Read on."""
        if self.end is not None or self.failed:
            return
        text = self._rest + piece
        size = len(text)
        self._place = 0
        while self._place < size and self.end is None and not self.failed:
            moved = self._string(text) if self._quote else self._between(text)
            if not moved:
                break
        self._rest = text[self._place :]
        self._read += self._place

    def _string(self, text: str) -> bool:
        """Read on within a string; False where more of the text must be known."""
        quote, place = self._quote, self._place
        if len(quote) > 1:
            found = text.find(quote, place)
            self._place = max(place, len(text) - len(quote) + 1) if found < 0 else found + len(quote)
            if found < 0:
                return False
        else:
            while (found := text.find(quote, place)) >= 0 and _escaped(text, self._place, found):
                place = found + 1
            if found < 0:
                # From the backslashes before the end on: whether the next character counts depends on them.
                self._place = len(text) - _backslashes(text, self._place, len(text))
                return False
            self._place = found + 1
        self._quote, self._last = "", '"'
        return True

    def _between(self, text: str) -> bool:
        place = self._place
        for quote in _QUOTES:
            if text.startswith(quote, place) and (quote != "'" or self._last in "{[,:"):
                self._quote, self._place = quote, place + len(quote)
                return True
        char = text[place]
        if char == "<" and any(quote.startswith(text[place:]) for quote in _QUOTES):
            return False
        if char in "{[":
            self._stack += char
            self.failed = len(self._stack) > _DEEPEST
        elif char in "}]":
            self.failed = not self._stack.endswith(_PAIRS[char])
            self._stack = self._stack[:-1]
            if not self._stack and not self.failed:
                self.end = self.start + self._read + place + 1
        else:
            plain = _PLAIN.match(text, place)
            if plain is not None:
                self._last = plain.group().rstrip()[-1:] or self._last
                self._place = plain.end()
                return True
        self._last = char
        self._place = place + 1
        return True


def _backslashes(text: str, start: int, end: int) -> int:
    return end - start - len(text[start:end].rstrip("\\"))


def _escaped(text: str, start: int, place: int) -> bool:
    return _backslashes(text, start, place) % 2 == 1


def read_object(text: str) -> dict[str, Any] | None:
    """The object that ``text`` is, all of it; None when it cannot be read."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        reader = _Reader(text)
        try:
            value = reader.value(0)
        except (ValueError, IndexError):
            return None
        if reader.rest():
            return None
    return value if isinstance(value, dict) else None


class _Reader:
    """Reads one value from the beginning of a text. Raises ValueError or IndexError where it cannot."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def rest(self) -> str:
        return self._text[self._place :].strip()

    def _skip(self) -> str:
        found = _SPACE.match(self._text, self._place)
        assert found is not None
        self._place = found.end()
        return self._text[self._place]

    def value(self, depth: int) -> Any:
        char = self._skip()
        if depth > _DEEPEST:
            raise ValueError("too deep")
        if char == "{":
            return self._members(depth)
        if char == "[":
            return self._items(depth)
        text = self._quoted()
        return _word(self._bare()) if text is None else text

    def _members(self, depth: int) -> dict[str, Any]:
        self._place += 1
        members: dict[str, Any] = {}
        while self._skip() != "}":
            quoted = self._quoted()
            key = self._bare().strip() if quoted is None else quoted
            if self._skip() != ":":
                raise ValueError("no colon")
            self._place += 1
            members[key] = self.value(depth + 1)
            self._comma("}")
        self._place += 1
        return members

    def _items(self, depth: int) -> list[Any]:
        self._place += 1
        items = []
        while self._skip() != "]":
            items.append(self.value(depth + 1))
            self._comma("]")
        self._place += 1
        return items

    def _comma(self, end: str) -> None:
        char = self._skip()
        if char == ",":
            self._place += 1
        elif char != end:
            raise ValueError("no comma")

    def _quoted(self) -> str | None:
        text, start = self._text, self._place
        for quote in _QUOTES:
            if not text.startswith(quote, start):
                continue
            start += len(quote)
            end = text.index(quote, start)
            if len(quote) == 1:
                while _escaped(text, start, end):
                    end = text.index(quote, end + 1)
            self._place = end + len(quote)
            return text[start:end] if len(quote) > 1 else _unescaped(text[start:end], quote)
        return None

    def _bare(self) -> str:
        found = _BARE.match(self._text, self._place)
        if found is None:
            raise ValueError("nothing")
        self._place = found.end()
        return found.group()


def _unescaped(text: str, quote: str) -> str:
    if quote == "'":
        text = text.replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
    value = json.loads(f'"{text}"', strict=False)
    assert isinstance(value, str)
    return value


def _word(text: str) -> Any:
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if type(value) in (int, float) else text
