"""What was encoded is not encoded again: the ids of stretches of text, kept within a bound of bytes.

A conversation that grew by a turn holds the stretches of the turns before,
word by word. A stretch's ids depend on its text alone
(:mod:`core.tokenizer.splitting`), so what is kept never shows in an answer.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from sys import getsizeof

from core.tokenizer.splitting import Splitting

# What an entry costs beside its text and ids: its place in the table and the order.
_ENTRY_BYTES = 200

EncodeAll = Callable[[Sequence[str]], Sequence[Sequence[int]]]
"""The ids of each of some texts, special tokens around them left out."""


class SegmentCache:
    """The ids of texts, the last used ones within ``max_bytes``. May be used by several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, array[int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes that are taken, counted from above."""
        return self._bytes

    def get(self, text: str) -> Sequence[int] | None:
        """The ids of a text, None when they are not known."""
        with self._lock:
            found = self._kept.get(text)
            if found is not None:
                self._kept.move_to_end(text)
            return found

    def put(self, text: str, ids: Sequence[int]) -> None:
        """Keep the ids of a text, at the cost of those that were not used for longest."""
        packed = array("I", ids)
        cost = _cost(text, packed)
        if cost > self._max_bytes:
            return
        with self._lock:
            if text in self._kept:
                return
            self._kept[text] = packed
            self._bytes += cost
            while self._bytes > self._max_bytes:
                self._bytes -= _cost(*self._kept.popitem(last=False))


def _cost(text: str, ids: array[int]) -> int:
    return getsizeof(text) + getsizeof(ids) + _ENTRY_BYTES


class SegmentEncoder:
    """Encodes texts stretch by stretch; stretches that are known are not encoded."""

    def __init__(self, splitting: Splitting, encode: EncodeAll, cache: SegmentCache) -> None:
        self._splitting = splitting
        self._encode = encode
        self._cache = cache

    def ids(self, text: str) -> list[int]:
        """The ids of a text, as the tokenizer gives them for all of it."""
        parts = self._splitting.split(text)
        known: dict[str, Sequence[int]] = {}
        missing: dict[str, None] = {}
        for part in parts:
            if isinstance(part, str) and part not in known:
                found = self._cache.get(part)
                if found is None:
                    missing[part] = None
                else:
                    known[part] = found
        if missing:
            for part, ids in zip(missing, self._encode(list(missing)), strict=True):
                known[part] = ids
                self._cache.put(part, ids)
        joined: list[int] = []
        for part in parts:
            if isinstance(part, str):
                joined.extend(known[part])
            else:
                joined.append(part)
        return joined
