"""LAZY: a module that only imports and combines other modules' names gets the same names loaded on first use.

Generated from the syntax tree; a module that does anything else is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass

from infra.slice.errors import MissingDefinition, UnsupportedShape
from infra.slice.names import exported, is_type_checking, references
from infra.slice.reach import absolute
from infra.slice.sources import ModuleSource


@dataclass(frozen=True)
class LazyName:
    """What has to run to bind a name: the import or assignment, and the lazy names that it reads in turn."""

    statement: str
    binds: tuple[str, ...]
    reads: tuple[str, ...]
    origin: str | None
    """The module imported from, absolute; None for assignments."""
    attribute: str | None
    """The name imported from it."""


def _star_names(source: ModuleSource, needed_by: str) -> list[str]:
    names = exported(ast.parse(source.text))
    if names is None:
        raise MissingDefinition(source.name, "__all__", needed_by)
    return names


def lazy_names(
    source: ModuleSource, find: Callable[[str], ModuleSource | None], needed_by: str = "its __all__"
) -> dict[str, LazyName]:
    """Every name that the module binds, with how to bind it.

    `find` gives the source of a module that is star-imported.
    """
    table: dict[str, LazyName] = {}
    for statement in ast.parse(source.text).body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if is_type_checking(statement) or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            continue
        if isinstance(statement, ast.ImportFrom):
            origin = absolute(statement, source.package)
            for alias in statement.names:
                if alias.name == "*":
                    starred = find(origin)
                    if starred is None:
                        raise UnsupportedShape(source.name, f"star import of unknown module {origin}")
                    pairs = [(name, name) for name in _star_names(starred, needed_by)]
                elif alias.name == "__all__":
                    continue
                else:
                    pairs = [(alias.name, alias.asname or alias.name)]
                for name, bound in pairs:
                    code = f"from {origin} import {name}" + (f" as {bound}" if bound != name else "")
                    table[bound] = LazyName(code, (bound,), (), origin, name)
            continue
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id == "__all__":
                continue
            elements = target.elts if isinstance(target, ast.Tuple) else [target]
            if all(isinstance(element, ast.Name) for element in elements):
                binds = tuple(element.id for element in elements if isinstance(element, ast.Name))
                reads = tuple(sorted(references(statement.value) & table.keys()))
                entry = LazyName(ast.unparse(statement), binds, reads, None, None)
                table.update(dict.fromkeys(binds, entry))
                continue
        raise UnsupportedShape(source.name, f"line {statement.lineno} is neither an import nor an assignment of names")
    return table


def lazy_module(source: ModuleSource, table: dict[str, LazyName], names: Collection[str]) -> str:
    """Source that binds each of `names`, and what they read, on first use. All other names do not exist."""
    loaders: list[str] = []
    index: dict[str, int] = {}
    imports: dict[str, tuple[str, str]] = {}

    def add(name: str) -> None:
        if name in index or name in imports:
            return
        entry = table[name]
        for read in entry.reads:
            add(read)
        if entry.origin is not None and entry.attribute is not None:
            imports[name] = (entry.origin, entry.attribute)
            return
        number = len(loaders)
        body = "".join(f"    {read} = __getattr__({read!r})\n" for read in entry.reads)
        loaders.append(f"\n\ndef _load_{number}():\n    global {', '.join(entry.binds)}\n{body}    {entry.statement}\n")
        index.update(dict.fromkeys(entry.binds, number))

    for name in sorted(names):
        if name not in table:
            raise MissingDefinition(source.name, name, "the names that the slice uses of it")
        add(name)
    rows = "".join(f"    {name!r}: ({o!r}, {a!r}),\n" for name, (o, a) in sorted(imports.items()))
    table_of_loaders = "".join(f"    {name!r}: _load_{number},\n" for name, number in sorted(index.items()))
    assigned = ""
    if loaders:
        assigned = (
            "    loader = _LOADERS.get(name)\n"
            "    if loader is not None:\n"
            "        loader()\n"
            "        return globals()[name]\n"
        )
    return (
        f'"""Made from upstream\'s {source.name}: the same names, each loaded on first use."""\n'
        "from importlib import import_module as _import_module\n\n"
        f"_IMPORTS = {{\n{rows}}}\n"
        "\n\ndef __getattr__(name):\n"
        "    entry = _IMPORTS.get(name)\n"
        "    if entry is not None:\n"
        "        value = getattr(_import_module(entry[0]), entry[1])\n"
        "        globals()[name] = value\n"
        "        return value\n"
        f"{assigned}"
        '    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")\n'
        + "".join(loaders)
        + (f"\n\n_LOADERS = {{\n{table_of_loaders}}}\n" if loaders else "")
    )
