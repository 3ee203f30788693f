"""What a process keeps so as not to make it again: the last used values, within a bound of bytes.

Whatever is kept follows from its key alone, so it never shows in an answer
what was asked before.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from core.json import JsonValue
from core.protocol.json_text import json_bytes

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """Values by key, within ``max_bytes`` of the costs that they were given. May be used by several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """The costs of what is kept, in bytes."""
        return self._bytes

    def get(self, key: Key) -> Value | None:
        """The value of a key, None where there is none."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def take(self, key: Key) -> Value | None:
        """The value of a key, which then is the caller's alone."""
        with self._lock:
            found = self._values.pop(key, None)
            if found is None:
                return None
            self._bytes -= found[1]
            return found[0]

    def put(self, key: Key, value: Value, cost: int) -> None:
        """Keep a value of ``cost`` bytes, at the expense of those that were not used for longest."""
        if cost > self._max_bytes:
            return
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = value, cost
            self._bytes += cost - (0 if before is None else before[1])
            while self._bytes > self._max_bytes:
                _, (_, freed) = self._values.popitem(last=False)
                self._bytes -= freed


class Sum(NamedTuple):
    """The SHA-256 of a JSON value, and some measure of what is built of it takes in bytes."""

    digest: bytes
    cost: int


# What a list, an object or a value of a validated request takes beside its text.
_PER_BRACKET = 1_500
_PER_VALUE = 60


def sum_of(value: JsonValue) -> Sum:
    """The same digest for the same JSON, keys in the same order."""
    text = json_bytes(value)
    brackets = text.count(b"{") + text.count(b"[")
    cost = 2 * len(text) + _PER_BRACKET * brackets + _PER_VALUE * text.count(b",")
    return Sum(hashlib.sha256(text).digest(), cost)
