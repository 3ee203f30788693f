"""A server's log lines: through a bounded queue and a thread, so that a reader who does not read stops no request."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from handlers.log_output import LogOutput, writing_to

# Some 10 MB of lines: what a collector that is restarted may take to catch up.
MOST_WAITING = 10_000
_END_SECONDS = 2.0


class QueuedOutput(LogOutput):
    """Writes lines from a thread of its own; what does not fit into its queue is counted."""

    def __init__(
        self,
        write: Callable[[str], None] | None = None,
        most: int = MOST_WAITING,
        form: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(write)
        self._form = form
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
            super().write(line if self._form is None else self._form(line))
            if told < lost == self.lost:
                # This line went through: so will the one that tells of those before.
                notice = f'{{"level":"WARNING","message":"log lines were lost","lost":{lost}}}\n'
                super().write(notice if self._form is None else self._form(notice))
                told = lost


@contextmanager
def queued(form: Callable[[str], str] | None = None) -> Iterator[QueuedOutput]:
    """The process's lines are written by a thread until the end of the block, as ``form`` makes them of JSON."""
    output = QueuedOutput(form=form)
    try:
        with writing_to(output):
            yield output
    finally:
        output.end()
