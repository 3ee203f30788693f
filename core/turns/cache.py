"""The last turns of conversations, kept in a process: for clients of a relay that send back no more than text.

A convenience that may miss: another process, a restart, or more conversations
than there is room for. What is found was written by this process, and is
checked like what a client carries.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.protocol.json_text import json_bytes
from core.turns.asked import Last
from core.turns.said import Said, is_answer, said_in
from core.turns.state import TurnState

# What an entry takes besides its ids: the key, the state, the mapping's own.
_OVERHEAD = 2048


@dataclass(frozen=True)
class _Entry:
    ids: array[int]
    prompt: int
    state: TurnState

    @property
    def size(self) -> int:
        return len(self.ids) * self.ids.itemsize + _OVERHEAD + 40 * len(self.state.spans)


class TurnCache:
    """Last turns by their conversation. What was used longest ago goes when there are more than ``max_bytes``."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, key: bytes, last: Last) -> None:
        """Keep a turn, unless it alone takes all the room."""
        entry = _Entry(array("I", [*last.token_ids, *last.output]), len(last.token_ids), last.state)
        if entry.size > self._max_bytes:
            return
        with self._lock:
            before = self._entries.pop(key, None)
            self._bytes += entry.size - (before.size if before is not None else 0)
            self._entries[key] = entry
            while self._bytes > self._max_bytes:
                _, oldest = self._entries.popitem(last=False)
                self._bytes -= oldest.size

    def get(self, key: bytes) -> Last | None:
        """The turn that a conversation ended with."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
        ids = entry.ids.tolist()
        return Last(ids[: entry.prompt], ids[entry.prompt :], entry.state)


def conversation_key(caller: bytes | None, messages: Sequence[Any], said: Said | None = None) -> bytes:
    """A digest of a caller's conversation, and of the answer that it got now.

    Answers count by what they say, however it is spelled, and without their reasoning.
    """
    seen = [*map(_plain, messages), *([] if said is None else [_answer(said)])]
    try:
        text = json_bytes(seen, sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # no JSON, as vLLM's types may hold: another key each time
        text = secrets.token_bytes(24)
    return hashlib.blake2b(text, digest_size=24, key=(caller or b"")[:64]).digest()


def _plain(message: Any) -> Any:
    return _answer(said_in(message)) if is_answer(message) else message


def _answer(said: Said) -> Any:
    return ["assistant", said.content, [list(call) for call in said.calls]]
