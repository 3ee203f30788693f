"""What vLLM's parser classes change on their objects after construction, read from their source."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("parser", "parser/engine", "parser/chat_parsing", "reasoning", "tool_parsers")
_CHANGING_CALLS = frozenset(
    {
        "append",
        "extend",
        "insert",
        "clear",
        "pop",
        "popitem",
        "update",
        "add",
        "remove",
        "discard",
        "setdefault",
        "send",
    }
)
_CONSTRUCTION = frozenset({"__init__", "__post_init__", "__init_subclass__"})


class Change(NamedTuple):
    """``holder.attribute`` is set, changed in place or deleted in a method of ``name``."""

    module: str
    name: str
    method: str
    holder: str
    attribute: str


def changes() -> Iterator[Change]:
    """Every attribute that a method of a parser class may change, on whatever object."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(next(iter(spec.submodule_search_locations)))
    for package in PACKAGES:
        for path in sorted((root / package).glob("*.py")):
            module = f"vllm.{package.replace('/', '.')}.{path.stem}"
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield from _of_class(module, node)


def _of_class(module: str, node: ast.ClassDef) -> Iterator[Change]:
    for method in node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or method.name in _CONSTRUCTION:
            continue
        for inner in ast.walk(method):
            for target in _targets(inner):
                for holder, attribute in _attributes(target):
                    yield Change(module, node.name, method.name, holder, attribute)


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        return list(node.targets)
    if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING_CALLS:
        return [node.func.value]
    return []


def _attributes(target: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            yield from _attributes(item)
    elif isinstance(target, ast.Starred | ast.Subscript):
        yield from _attributes(target.value)
    elif isinstance(target, ast.Attribute):
        yield ast.unparse(target.value), target.attr
