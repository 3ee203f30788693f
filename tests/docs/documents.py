"""The documents as data: their code blocks, command lines, links and names in code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^(`{3,}|~{3,})(\w*)\s*$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$")
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
# What a line of an indented block begins with when it is a command and not a diagram.
_COMMAND = re.compile(r"^(make|derender|docker|git|pip|python -m|\.venv[\w-]*/bin/\S+)( |$)")


@dataclass(frozen=True)
class Block:
    """A fenced code block. ``before`` is the text line that it follows, ``line`` its first line's number."""

    document: str
    language: str
    code: str
    line: int
    before: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command line: as a shell would read it, continuation lines joined."""

    document: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


class Document:
    """One Markdown file, by its path in the repository."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = (ROOT / path).read_text(encoding="utf-8")
        self.blocks: list[Block] = []
        self._prose: list[tuple[int, str]] = []
        self._read()

    def _read(self) -> None:
        fence, language, start, code, before = "", "", 0, [], ""
        for number, line in enumerate(self.text.split("\n"), 1):
            found = _FENCE.match(line)
            if fence:
                if found and found[1] == fence and not found[2]:
                    self.blocks.append(Block(self.path, language, "\n".join(code) + "\n", start, before))
                    fence, before = "", ""
                else:
                    code.append(line)
            elif found:
                fence, language, start, code = found[1], found[2], number + 1, []
            else:
                self._prose.append((number, line))
                before = line.strip() or before
        assert not fence, f"{self.path}:{start}: a code block that does not end"

    @property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return "\n".join(line for _, line in self._prose)

    @cached_property
    def indented(self) -> list[tuple[int, str]]:
        """The lines of indented code blocks, with their numbers."""
        found, in_code, blank = [], False, True
        for number, line in self._prose:
            if line.startswith("    ") and (in_code or blank):
                found.append((number, line.strip()))
                in_code = True
            elif line.strip():
                in_code = False
            blank = not line.strip()
        return found

    @cached_property
    def commands(self) -> list[Command]:
        """Every command line: of shell blocks all lines, of indented blocks those that begin as one."""
        lines = [
            (block.line + index, line)
            for block in self.blocks
            if block.language == "sh"
            for index, line in enumerate(block.code.split("\n"))
        ]
        lines += [(number, line) for number, line in self.indented if _COMMAND.match(line)]
        commands, waiting, first = [], "", 0
        for number, line in lines:
            first = first if waiting else number
            waiting += line.rstrip()
            if waiting.endswith("\\"):
                waiting = waiting[:-1]
                continue
            if waiting.strip() and not waiting.strip().startswith("#"):
                commands.append(Command(self.path, first, waiting.strip()))
            waiting = ""
        return commands

    @cached_property
    def links(self) -> list[str]:
        """The targets of all links."""
        return _LINK.findall(re.sub(r"`[^`]*`", "", self.prose))

    @cached_property
    def anchors(self) -> set[str]:
        """The anchors of the headings, as GitHub makes them."""
        found: set[str] = set()
        for _, line in self._prose:
            heading = _HEADING.match(line)
            if heading:
                words = re.sub(r"[^\w\- ]", "", heading[1].lower())
                found.add(words.replace(" ", "-"))
        return found

    @cached_property
    def spans(self) -> list[str]:
        """All that stands in single backticks; a line break in it is a space."""
        return [" ".join(span.split("\n")).strip() for span in _SPAN.findall(self.prose)]


def _paths() -> Iterator[str]:
    yield from ("README.md", "CONTRIBUTING.md", "client/README.md")
    yield from sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


@cache
def documents() -> tuple[Document, ...]:
    """README, CONTRIBUTING, the client's README and all of docs."""
    return tuple(Document(path) for path in _paths())


@cache
def document(path: str) -> Document:
    """One of them."""
    return next(found for found in documents() if found.path == path)
