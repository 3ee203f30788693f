"""Who waits for a work process: a line for each caller, and the callers in turn.

So a caller who sends many long requests waits for them behind himself: whoever
sends one is next. Without keys all are one caller, and first come, first served.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Waiting = TypeVar("Waiting")


class Lines(Generic[Waiting]):
    """What waits, at most ``most`` of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        # The line that is next is the first.
        self._lines: OrderedDict[Hashable, deque[Waiting]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, caller: Hashable, one: Waiting) -> Waiting | None:
        """Let one wait; who has to leave for it, which may be itself.

        Where there is no room the last of the longest line leaves, unless the
        caller's own line would be as long: so each of several callers has a
        part of the room, whenever it comes.
        """
        leaves: Waiting | None = None
        if self._count >= self._most:
            longest = max(self._lines, key=lambda name: len(self._lines[name]), default=None)
            own = len(self._lines.get(caller, ())) + 1
            if longest is None or len(self._lines[longest]) <= own:
                return one
            leaves = self._lines[longest].pop()
            self._count -= 1
        self._lines.setdefault(caller, deque()).append(one)
        self._count += 1
        return leaves

    def next(self) -> Waiting:
        """Who is next, no longer waiting.

        Raises:
            IndexError: nobody waits.
        """
        if not self._lines:
            raise IndexError("nobody waits")
        caller, line = self._lines.popitem(last=False)
        one = line.popleft()
        self._count -= 1
        if line:
            self._lines[caller] = line  # behind all others
        return one

    def leave(self, caller: Hashable, one: Waiting) -> None:
        """Who will not wait any longer; nothing, where it does not."""
        line = self._lines.get(caller)
        if line is None or one not in line:
            return
        line.remove(one)
        self._count -= 1
        if not line:
            del self._lines[caller]
