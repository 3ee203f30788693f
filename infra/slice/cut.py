"""SLICE: cuts a module, by its syntax tree, down to named top-level definitions and what they reference.

Kept statements keep their upstream text. Annotations are not followed: their evaluation is postponed instead. Imports
inside functions and module-level lazy loaders are statements like any other and stay. Nothing is ever invented for a
definition that is gone: the build stops with its name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from infra.slice.edits import SourceEdits
from infra.slice.errors import MissingDefinition, UnsupportedShape
from infra.slice.given import given_imports
from infra.slice.names import bound_by, is_type_checking, references


def _binds(statement: ast.stmt) -> set[str]:
    if is_type_checking(statement):
        assert isinstance(statement, ast.If)
        return {name for inner in statement.orelse for name in bound_by(inner)}
    return bound_by(statement)


def _extends(statement: ast.stmt) -> str | None:
    """The name that a statement changes without binding it, as in `table["key"] = ...` or `table.update(...)`."""
    node: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        node = statement.targets[0]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        node = statement.value.func
    if not isinstance(node, ast.Subscript | ast.Attribute):
        return None
    inner: ast.expr = node
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    return inner.id if isinstance(inner, ast.Name) else None


def _import_with(statement: ast.Import | ast.ImportFrom, names: set[str]) -> str:
    """The import statement with only the aliases that bind wanted names."""
    kept = [a for a in statement.names if (a.asname or a.name.partition(".")[0]) in names]
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names=kept))
    return ast.unparse(ast.ImportFrom(module=statement.module, names=kept, level=statement.level))


def cut(
    module: str,
    text: str,
    names: Iterable[str],
    *,
    fields_of_classes: bool = False,
    given: Mapping[str, str] | None = None,
    needed_by: str = "the specification",
) -> str:
    """The module's text cut down to `names` and what they reference.

    Parameters
    ----------
    module, text
        The upstream module's name, for messages, and its source.
    names
        Top-level names to keep. A name that the module does not bind raises MissingDefinition.
    fields_of_classes
        Follow annotations in class bodies, which pydantic reads when the class is made.
    given
        Names that another module binds, by name: none of this module's own statements is kept for them.
    needed_by
        Who asks, for messages.
    """
    tree = ast.parse(text)
    binders: dict[str, list[int]] = {}
    for index, statement in enumerate(tree.body):
        if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
            raise UnsupportedShape(module, "a star import cannot be cut")
        for name in _binds(statement):
            binders.setdefault(name, []).append(index)
    given = given or {}
    for name in given:
        binders.pop(name, None)
    wanted = set(names)
    for name in sorted(wanted - given.keys()):
        if name not in binders:
            raise MissingDefinition(module, name, needed_by)

    kept: set[int] = set()
    known = set(wanted)
    taken = set(wanted) & given.keys()
    queue = sorted(wanted)
    while queue:
        for name in queue:
            kept.update(binders.get(name, ()))
        for index, statement in enumerate(tree.body):
            if index not in kept and _extends(statement) in known:
                kept.add(index)
        found: set[str] = set()
        for index in kept:
            statement = tree.body[index]
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                found |= references(statement, fields_of_classes=fields_of_classes)
        taken |= found & given.keys()
        queue = sorted((found & binders.keys()) - known)
        known.update(queue)

    source = SourceEdits(text)
    first = tree.body[0].lineno if tree.body else 1
    parts = [
        # The licence lines.
        *(line + "\n" for line in text.splitlines()[: first - 1] if line.startswith("#")),
        f'"""Cut from upstream\'s {module}: {", ".join(sorted(wanted))}."""\n',
        "\nfrom __future__ import annotations\n",
    ]
    for index in sorted(kept):
        statement = tree.body[index]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                continue
            parts.append(_import_with(statement, known) + "\n")
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            lead = "".join(f"@{source.segment(d)}\n" for d in statement.decorator_list)
            parts.append(f"\n{lead}{source.segment(statement)}\n")
        else:
            parts.append(source.segment(statement) + "\n")
    # The last lines: what gives may itself need what is kept here.
    parts.append(given_imports({name: given[name] for name in taken}))
    return "".join(parts)
