"""REDIRECT: imports of named third-party packages resolve to modules inside the slice.

This keeps fake or partial packages out of site-packages: the environment's own `openai` stays whole, and a package that
is not installed stays absent. Only import statements and the module names given to lazy loaders change.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from infra.slice.edits import SourceEdits
from infra.slice.errors import UnsupportedShape
from infra.slice.names import is_type_checking

_FROM = re.compile(r"(from\s+)([\w.]+)")


def redirected(module: str, table: Mapping[str, str]) -> str | None:
    """Where a module's name leads to, or None when it is not redirected. The longest matching entry counts."""
    name = module
    while name:
        if name in table:
            return table[name] + module[len(name) :]
        name = name.rpartition(".")[0]
    return None


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield other
                yield from _statements(other)
        else:
            yield from _statements(child)


def redirect(module: str, text: str, table: Mapping[str, str]) -> str:
    """The module's text with its imports of the packages in `table` redirected."""
    edits = SourceEdits(text)
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            target = redirected(node.module, table)
            if target is not None:
                new = _FROM.sub(lambda match, to=target: match[1] + to, edits.segment(node), count=1)  # type: ignore[misc]
                edits.replace(node, new)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                target = redirected(alias.name, table)
                if target is None:
                    continue
                if alias.asname is None and "." in alias.name:
                    # `import a.b` would bind `vllm` here, not `a`.
                    raise UnsupportedShape(module, f"`import {alias.name}` cannot be redirected without `as`")
                edits.replace(alias, f"{target} as {alias.asname or alias.name}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LazyLoader":
            name = node.args[2] if len(node.args) == 3 else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                target = redirected(name.value, table)
                if target is not None:
                    edits.replace(name, f'"{target}"')
    return edits.apply()
