"""Which modules and names a module's code imports, at import time and later, inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from infra.slice.names import is_type_checking


@dataclass(frozen=True)
class Edge:
    """One import: a module, and a name of it (None for the module itself). `late` when inside a function."""

    module: str
    name: str | None
    late: bool
    line: int


def absolute(statement: ast.ImportFrom, package: str) -> str:
    """The module that a from-import names, relative ones resolved from `package`."""
    if not statement.level:
        assert statement.module is not None
        return statement.module
    base = package.split(".")
    base = base[: len(base) - statement.level + 1]
    return ".".join([*base, statement.module] if statement.module else base)


def _called(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def imports(text: str, package: str) -> Iterator[Edge]:
    """Every import in the source, `if TYPE_CHECKING:` blocks left out.

    `package` is what relative imports start from. Lazy loaders and calls of `import_module` with a
    constant module name count as late imports.
    """

    def walk(node: ast.AST, late: bool) -> Iterator[Edge]:
        for child in ast.iter_child_nodes(node):
            if is_type_checking(child):
                assert isinstance(child, ast.If)
                for other in child.orelse:
                    yield from walk(ast.Module(body=[other], type_ignores=[]), late)
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    yield Edge(alias.name, None, late, child.lineno)
            elif isinstance(child, ast.ImportFrom):
                for alias in child.names:
                    yield Edge(absolute(child, package), alias.name, late, child.lineno)
            else:
                if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "LazyLoader":
                    name = child.args[2] if len(child.args) == 3 else None
                    if isinstance(name, ast.Constant) and isinstance(name.value, str):
                        yield Edge(name.value, None, True, child.lineno)
                elif isinstance(child, ast.Call) and _called(child) == "import_module":
                    name = child.args[0] if len(child.args) == 1 else None
                    if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value[:1] != ".":
                        yield Edge(name.value, None, True, child.lineno)
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, late or inside)

    yield from walk(ast.parse(text), False)
