"""Positional edits of Python source: what is not edited stays byte for byte as it was.

Syntax-tree positions are in lines and UTF-8 bytes; this module is the only one that knows.
"""

from __future__ import annotations

import ast


class SourceEdits:
    """Collects replacements at syntax-tree positions and applies them together."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._edits: list[tuple[int, int, bytes]] = []

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a 1-based line and a 0-based byte column."""
        return self._starts[line - 1] + column

    def span(self, node: ast.stmt | ast.expr | ast.alias) -> tuple[int, int]:
        """Byte offsets of a node's first byte and of the byte after its last."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: ast.stmt | ast.expr | ast.alias) -> str:
        """A node's source."""
        start, end = self.span(node)
        return self._data[start:end].decode()

    def replace(self, node: ast.stmt | ast.expr | ast.alias, text: str, *, keep_lines: bool = False) -> None:
        """Replace a node's source. With `keep_lines`, pad with line ends: later lines keep their numbers."""
        start, end = self.span(node)
        if keep_lines:
            text += "\n" * (self._data[start:end].count(b"\n") - text.count("\n"))
        self._edits.append((start, end, text.encode()))

    def replace_span(self, start: int, end: int, text: str) -> None:
        """Replace the source between two byte offsets."""
        self._edits.append((start, end, text.encode()))

    def find(self, text: str, start: int) -> int:
        """Byte offset of the first occurrence of `text` at or after a byte offset."""
        return self._data.index(text.encode(), start)

    def insert_line(self, line: int, text: str) -> None:
        """Insert lines before a 1-based line."""
        start = self._starts[line - 1]
        self._edits.append((start, start, text.encode()))

    def append(self, text: str) -> None:
        """Add text at the end."""
        self._edits.append((len(self._data), len(self._data), text.encode()))

    def apply(self) -> str:
        """The edited source. Edits must not overlap."""
        out = self._data
        previous = len(out) + 1
        # From the end. At one place replacements go first, so that insertions end up before them, in their own order.
        last_first = self._edits[::-1]
        for start, end, new in sorted(last_first, key=lambda edit: (-edit[0], -edit[1])):
            assert end <= previous, "overlapping edits"
            out = out[:start] + new + out[end:]
            previous = start
        return out.decode()
