"""Server-sent events from bytes as they arrive.

Lines end as the standard says: a general line splitter also splits at U+2028
and the like, which may stand inside JSON text.
"""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventDecoder:
    """Takes the bytes of a stream in pieces, gives the data of the events that they complete."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[str]:
        """The data of each event that ends in this piece. An event without data is left out."""
        if b"\n" not in piece and b"\r" not in piece and not self._ends_in_return():
            # Kept apart until the line is complete: joined each time, a long line would cost its square.
            self._tail.append(piece)
            return []
        text = b"".join((*self._tail, piece))
        # A carriage return at the end may be the first half of a line end.
        held = text.endswith(b"\r")
        lines = _LINE_END.split(text[:-1] if held else text)
        self._tail = [lines.pop() + (b"\r" if held else b"")]
        return [data for line in lines for data in self._take(line)]

    def _ends_in_return(self) -> bool:
        return bool(self._tail) and self._tail[-1].endswith(b"\r")

    def _take(self, line: bytes) -> list[str]:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return []
        if not self._data:
            return []
        data = b"\n".join(self._data).decode("utf-8", "replace")
        self._data = []
        return [data]
