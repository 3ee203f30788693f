"""SLICE: a class with only some of its members, for a class that is built on what the slice cannot have.

Kept members keep their upstream text. A class loses its bases: what is kept of it must stand without them.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from infra.slice.edits import SourceEdits
from infra.slice.errors import MissingDefinition
from infra.slice.names import bound_by


def narrow(module: str, text: str, members: Mapping[str, Collection[str]], needed_by: str = "the specification") -> str:
    """The module's text, its classes cut down to the named members and those that these use.

    Parameters
    ----------
    module, text
        The upstream module's name, for messages, and its source.
    members
        By class, the names to keep. A class or a member that is not there raises MissingDefinition.
    """
    tree = ast.parse(text)
    classes = {statement.name: statement for statement in tree.body if isinstance(statement, ast.ClassDef)}
    edits = SourceEdits(text)
    for name, wanted in members.items():
        if name not in classes:
            raise MissingDefinition(module, name, needed_by)
        edits.replace(classes[name], _narrowed(module, classes[name], edits, wanted, needed_by))
    return edits.apply()


def _narrowed(
    module: str, definition: ast.ClassDef, source: SourceEdits, wanted: Collection[str], needed_by: str
) -> str:
    binders = {name: statement for statement in definition.body for name in bound_by(statement)}
    for name in wanted:
        if name not in binders:
            raise MissingDefinition(module, f"{definition.name}.{name}", needed_by)
    kept: set[str] = set()
    queue = sorted(wanted)
    while queue:
        kept.update(queue)
        used = {name for known in queue for name in _members_used(binders[known], definition.name)}
        queue = sorted((used & binders.keys()) - kept)
    lines = [f"class {definition.name}:\n"]
    for statement in definition.body:
        if bound_by(statement).isdisjoint(kept):
            continue
        for decorator in getattr(statement, "decorator_list", ()):
            lines.append(f"    @{source.segment(decorator)}\n")
        lines.append(f"    {source.segment(statement)}\n\n")
    return "".join(lines).rstrip("\n")


def _members_used(statement: ast.stmt, name: str) -> set[str]:
    """What a member reads of its own class, through an instance, the class or its name."""
    owners = {"self", "cls", name}
    return {
        node.attr
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in owners
    }
