"""What was encoded is not encoded again: the ids of stretches of text, kept within a bound of bytes.

A conversation that grew by a turn holds the stretches of the turns before,
word by word. A stretch's ids depend on its text alone
(:mod:`core.tokenizer.splitting`), so what is kept never shows in an answer.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from sys import getsizeof

from core.kept import Kept
from core.tokenizer.splitting import Splitting

# What an entry costs beside its text and ids: its place in the table and the order.
_ENTRY_BYTES = 250

EncodeAll = Callable[[Sequence[str]], Sequence[Sequence[int]]]
"""The ids of each of some texts, special tokens around them left out."""
Segments = Kept[str, "array[int]"]
"""Stretches of text with their ids."""


class SegmentEncoder:
    """Encodes texts stretch by stretch; stretches that are known are not encoded."""

    def __init__(self, splitting: Splitting, encode: EncodeAll, kept: Segments) -> None:
        self._splitting = splitting
        self._encode = encode
        self._kept = kept

    def ids(self, text: str) -> list[int]:
        """The ids of a text, as the tokenizer gives them for all of it."""
        parts = self._splitting.split(text)
        known: dict[str, Sequence[int]] = {}
        missing: dict[str, None] = {}
        for part in parts:
            if isinstance(part, str) and part not in known:
                found = self._kept.get(part)
                if found is None:
                    missing[part] = None
                else:
                    known[part] = found
        if missing:
            for part, ids in zip(missing, self._encode(list(missing)), strict=True):
                known[part] = ids
                packed = array("I", ids)
                self._kept.put(part, packed, getsizeof(part) + getsizeof(packed) + _ENTRY_BYTES)
        joined: list[int] = []
        for part in parts:
            if isinstance(part, str):
                joined.extend(known[part])
            else:
                joined.append(part)
        return joined
