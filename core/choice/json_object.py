"""Following a JSON object that comes in pieces: whether it is one, with a state of a few bytes.

What is followed are the strings, the brackets and the characters between
them. That finds what parsers leave broken: an end that is missing or comes
too early, text around it, other quotes, bare words.
"""

from __future__ import annotations

import re

# The rest of a string that is open: up to its end, or to the end of the piece, perhaps within an escape.
_STRING = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_BETWEEN = re.compile(r"[^\"{}\[\]]*")
# Numbers, true, false, null and what separates values; a word may be cut in two by a piece.
_PLAIN = re.compile(r"[\s,:0-9.eE+truefalsn-]*")
_PAIRS = {"}": "{", "]": "["}
# No call nests its arguments deeper than this; the state must stay small.
_DEEPEST = 128
MAX_STATE = _DEEPEST + 2


class JsonObject:
    """One object on its way. ``state`` is its form for a checkpoint: the open brackets, and a mark within a string.

    The state is ``None`` when it cannot become an object any more, "" before
    its beginning, and "." when it is complete.
    """

    def __init__(self, state: str | None = "") -> None:
        self.state = state

    @property
    def complete(self) -> bool:
        return self.state == "."

    def feed(self, text: str) -> None:
        """Read the next piece."""
        if self.state and self.state[-1] == '"' and '"' not in text and "\\" not in text:
            return  # most pieces are of a string
        place, size = 0, len(text)
        while place < size and self.state is not None:
            state = self.state
            if state.endswith("\\"):  # the character after a backslash
                self.state, place = state[:-1], place + 1
            elif state.endswith('"'):
                place = self._string(text, place)
            elif text[place] == '"':
                self.state = state + '"' if state and state != "." else None
                place += 1
            elif text[place] in "{[":
                self._open(text[place])
                place += 1
            elif text[place] in "}]":
                self._close(text[place])
                place += 1
            else:
                place = self._between(text, place)

    def _string(self, text: str, place: int) -> int:
        found = _STRING.match(text, place)
        end = found.end() if found else place
        assert self.state is not None
        if end == len(text):
            return end
        if text[end] == '"':
            self.state = self.state[:-1]
            return end + 1
        self.state += "\\"  # a backslash that ends the piece
        return end + 1

    def _open(self, bracket: str) -> None:
        assert self.state is not None
        first = not self.state
        fits = bracket == "{" if first else self.state != "." and len(self.state) < _DEEPEST
        self.state = self.state + bracket if fits else None

    def _close(self, bracket: str) -> None:
        assert self.state is not None
        fits = self.state.endswith(_PAIRS[bracket])
        self.state = (self.state[:-1] or ".") if fits else None

    def _between(self, text: str, place: int) -> int:
        found = _BETWEEN.match(text, place)
        end = found.end() if found else place
        between = text[place:end]
        assert self.state is not None
        plain = _PLAIN.fullmatch(between) if self.state.strip(".") else not between.strip()
        if not plain:
            self.state = None
        return end
