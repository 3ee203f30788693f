"""Where log lines go: standard output, which may be full, closed, or read by nobody.

A line that cannot be written is lost and counted, and the request that it is
about is answered as if it had been. A Lambda function writes at once: after an
answer it is frozen. A server's lines go through a queue (``handlers.log_queue``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _to_standard_output(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def as_text(line: str) -> str:
    """A line of JSON as one for people: time, level, message, then fields by name. What is no plain word is quoted."""
    fields = json.loads(line)
    words = [fields.pop(name, "") for name in ("timestamp", "level", "message")]
    named = (f"{name}={_word(value)}" for name, value in fields.items() if name != "_aws")
    return " ".join([*filter(None, map(str, words)), *named]) + "\n"


def _word(value: object) -> str:
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    return json.dumps(value)


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


_output = LogOutput()


def write_out(line: str) -> None:
    """Write a line to the process's output. It never raises."""
    _output.write(line)


@contextmanager
def writing_to(output: LogOutput) -> Iterator[None]:
    """The process's lines go to ``output`` until the end of the block."""
    global _output
    before, _output = _output, output
    try:
        yield
    finally:
        _output = before
