"""Where log lines go: standard output, which may be full, closed, or read by nobody.

A line that cannot be written is lost and counted, and the request that it is
about is answered as if it had been. A Lambda function writes at once: after an
answer it is frozen. A server's lines go through a bounded queue and a thread,
so that a reader who does not read stops no request.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Some 10 MB of lines: what a collector that is restarted may take to catch up.
MOST_WAITING = 10_000
_END_SECONDS = 2.0


def _to_standard_output(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


class LogOutput:
    """Writes lines at once."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write_out = write or _to_standard_output
        self.lost = 0
        """Lines that could not be written."""

    def write(self, line: str) -> None:
        """Write ``line``, which ends in a line feed, or count it."""
        try:
            self._write_out(line)
        except (OSError, ValueError):  # a closed stream is a ValueError
            self.lost += 1


class QueuedOutput(LogOutput):
    """Writes lines from a thread of its own; what does not fit into its queue is counted."""

    def __init__(self, write: Callable[[str], None] | None = None, most: int = MOST_WAITING) -> None:
        super().__init__(write)
        self._lines: queue.Queue[str | None] = queue.Queue(most)
        # A daemon: a write that never returns must not keep the process.
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.lost += 1

    def end(self) -> None:
        """Write what waits, for a moment."""
        try:
            self._lines.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        told = 0
        while (line := self._lines.get()) is not None:
            lost = self.lost
            super().write(line)
            if told < lost == self.lost:
                # This line went through: so will the one that tells of those before.
                super().write(f'{{"level":"WARNING","message":"log lines were lost","lost":{lost}}}\n')
                told = lost


_output = LogOutput()


def write_out(line: str) -> None:
    """Write a line to the process's output. It never raises; it waits for nobody within :func:`queued`."""
    _output.write(line)


@contextmanager
def queued() -> Iterator[QueuedOutput]:
    """Lines are written by a thread until the end of the block."""
    global _output
    before, output = _output, QueuedOutput()
    _output = output
    try:
        yield output
    finally:
        _output = before
        output.end()
