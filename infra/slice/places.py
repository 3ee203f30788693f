"""Where a version's specification speaks of a module or a name: file and line, for messages."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from infra.slice.versions import VERSIONS

_FOLDER = Path(__file__).parent / "versions"
_ROOT = Path(__file__).parents[2]


@cache
def _strings(path: Path) -> tuple[tuple[str, int], ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(
        (node.value, node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _files(version: str) -> list[Path]:
    """The tables that make up a version's: its own, then those that it stands on, newer and newer."""
    own = VERSIONS[: VERSIONS.index(version) + 1]
    return [_FOLDER / "v{}_{}.py".format(*each.split(".")[:2]) for each in reversed(own)]


def place(version: str, module: str, name: str = "") -> str | None:
    """`file:line` of the entry for a module, or of the root that asks for the name; None when there is none."""
    for path in _files(version):
        lines = [line for text, line in _strings(path) if text == module or text == f"{module}:{name}"]
        # A root names what it asks for: "module:name,name".
        lines += [line for text, line in _strings(path) if text.startswith(f"{module}:") and name in text]
        if lines:
            return f"{path.relative_to(_ROOT).as_posix()}:{min(lines)}"
    return None
