"""Which part of an output's text each piece of its answer is.

A parser says what it makes of an output, not from where. Its pieces come in the
order of the text, so each is looked for behind the one before. A piece that was
written anew (arguments as JSON) is found letter by letter. What no piece is,
is markup.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

Kind = Literal["reasoning", "content", "name", "arguments", "markup"]
# How far ahead the next letter of a piece that was written anew may stand.
_AHEAD = 40


class Alignment:
    """The text of an output as far as it is read, and what its letters are."""

    def __init__(self) -> None:
        self._text = ""
        self._kinds: list[Kind | None] = []
        self._at = 0

    def read(self, text: str) -> tuple[int, int]:
        """More of the text; where it begins and ends."""
        start = len(self._text)
        self._text += text
        self._kinds += [None] * len(text)
        return start, len(self._text)

    def say(self, kind: Kind, piece: str) -> None:
        """The next piece of the answer."""
        if not piece:
            return
        found = self._text.find(piece, self._at)
        if found >= 0:
            self._mark(kind, found, found + len(piece))
            return
        for letter in piece:
            found = self._text.find(letter, self._at, self._at + _AHEAD)
            if found >= 0 and not (letter.isspace() and found > self._at):
                self._mark(kind, found, found + 1)

    def kind(self, start: int, end: int) -> Kind:
        """What most letters of a part of the text are; of those that are no part of the answer: markup."""
        counted = Counter(kind for kind in self._kinds[start:end] if kind is not None)
        return counted.most_common(1)[0][0] if counted else "markup"

    def _mark(self, kind: Kind, start: int, end: int) -> None:
        self._kinds[start:end] = [kind] * (end - start)
        self._at = end
