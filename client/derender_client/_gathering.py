"""Which chunks go into one call, and when.

Pure bookkeeping over time stamps that are handed in: it must never look at a
clock, and never at a token.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from derender_client._effects import Json

# The server's own limit of chunks in a call.
MAX_TOKENS = 4096


@dataclass
class _Queue:
    """The waiting chunks of one choice, each with its size and arrival time."""

    chunks: deque[tuple[Json, int, float]] = field(default_factory=deque)
    size: int = 0
    finished: bool = False


class Gathering:
    """Chunks that wait, choice by choice, in the order of the stream.

    A batch is due when it holds ``tokens`` tokens, when its choice has
    finished, and when its first chunk has waited for ``seconds`` (None: no
    limit). It holds at most ``tokens`` tokens, but never less than one chunk.
    """

    def __init__(self, tokens: int = 1, seconds: float | None = None) -> None:
        self._tokens = tokens
        self._seconds = seconds
        self._queues: dict[int, _Queue] = {}

    @property
    def timed(self) -> bool:
        """Whether time can make a batch due before it is full."""
        return self._seconds is not None and self._tokens > 1

    @property
    def full(self) -> bool:
        """Whether a batch is due, whatever the time."""
        return any(self._full(queue) for queue in self._queues.values())

    def add(self, index: int, chunk: Json, now: float) -> None:
        """Let a chunk of one choice wait."""
        queue = self._queues.setdefault(index, _Queue())
        choice = chunk["choices"][0]
        # A chunk without tokens counts as one: no more chunks than tokens go into a call.
        size = max(len(choice.get("token_ids") or ()), 1)
        queue.chunks.append((chunk, size, now))
        queue.size += size
        queue.finished = queue.finished or choice.get("finish_reason") is not None

    def due(self, now: float) -> list[tuple[int, list[Json]]]:
        """Take one batch, (choice, chunks), of each choice that has one due."""
        return [(index, self._take(queue)) for index, queue in self._queues.items() if self._is_due(queue, now)]

    def rest(self) -> list[tuple[int, list[Json]]]:
        """Take one batch of each choice that has any chunk. Empty when nothing waits."""
        return [(index, self._take(queue)) for index, queue in self._queues.items() if queue.chunks]

    def wait(self, now: float) -> float | None:
        """Seconds until time makes a batch due; None when it cannot."""
        if self._seconds is None:
            return None
        first = min((queue.chunks[0][2] for queue in self._queues.values() if queue.chunks), default=None)
        return None if first is None else max(0.0, first + self._seconds - now)

    def _full(self, queue: _Queue) -> bool:
        return bool(queue.chunks) and (queue.finished or queue.size >= self._tokens)

    def _is_due(self, queue: _Queue, now: float) -> bool:
        if self._full(queue):
            return True
        return bool(queue.chunks) and self._seconds is not None and now >= queue.chunks[0][2] + self._seconds

    def _take(self, queue: _Queue) -> list[Json]:
        batch: list[Json] = []
        taken = 0
        while queue.chunks and (not batch or taken + queue.chunks[0][1] <= self._tokens):
            chunk, size, _ = queue.chunks.popleft()
            batch.append(chunk)
            taken += size
        queue.size -= taken
        return batch


def gathering_of(tokens: int, milliseconds: float | None) -> Gathering:
    """The gathering that a caller asks for.

    Raises:
        ValueError: a number is out of its range.
    """
    if not 1 <= tokens <= MAX_TOKENS:
        raise ValueError(f"gather_tokens must be between 1 and {MAX_TOKENS}, not {tokens}")
    if milliseconds is not None and not milliseconds >= 0:
        raise ValueError(f"gather_ms must be a number of milliseconds, not {milliseconds}")
    return Gathering(tokens, None if milliseconds is None else milliseconds / 1000)
