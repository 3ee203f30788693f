"""Names in a module's syntax tree: what its top level binds, and what code refers to.

Annotations are never counted as references: generated modules postpone their evaluation.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator

MODULE_GLOBALS = frozenset(dir(builtins)) | {
    "__file__",
    "__name__",
    "__doc__",
    "__package__",
    "__path__",
    "__spec__",
    "__loader__",
    "__annotations__",
    "__module__",
    "__qualname__",
}


def _targets(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from _targets(element)
    elif isinstance(node, ast.Starred):
        yield from _targets(node.value)


def bound_by(statement: ast.stmt) -> set[str]:
    """Names that executing one top-level statement can bind, nested blocks included, functions and classes not."""
    found: set[str] = set()
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names if alias.name != "*"}
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            found.update(_targets(target))
        return found
    if isinstance(statement, ast.AnnAssign):
        # `name: type` alone binds nothing.
        return set(_targets(statement.target)) if statement.value is not None else set()
    if isinstance(statement, ast.AugAssign):
        return set(_targets(statement.target))
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            found |= bound_by(child)
        elif isinstance(child, ast.ExceptHandler):
            for inner in child.body:
                found |= bound_by(inner)
    if isinstance(statement, ast.For | ast.AsyncFor):
        found.update(_targets(statement.target))
    if isinstance(statement, ast.With | ast.AsyncWith):
        for item in statement.items:
            if item.optional_vars is not None:
                found.update(_targets(item.optional_vars))
    return found


class _References(ast.NodeVisitor):
    """Collects names that are read, annotations left out."""

    def __init__(self, fields_of_classes: bool) -> None:
        self.names: set[str] = set()
        self._fields = fields_of_classes
        self._in_function = False

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._fields and not self._in_function:
            self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self.visit(node.target)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.visit(node.args)
        was, self._in_function = self._in_function, True
        for statement in node.body:
            self.visit(statement)
        self._in_function = was

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)


def references(node: ast.AST, *, fields_of_classes: bool = False) -> set[str]:
    """Names that a statement reads, an over-estimate: local names of functions are included.

    With `fields_of_classes`, annotations in class bodies count: pydantic needs them when the class is made.
    """
    visitor = _References(fields_of_classes)
    visitor.visit(node)
    return visitor.names


def unbound_globals(text: str, filename: str) -> list[str]:
    """Globals that the module's code reads and that neither the module nor Python binds, sorted."""
    table = symtable.symtable(text, filename, "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    bound |= {child.get_name() for child in table.get_children()}
    missing: set[str] = set()

    def walk(scope: symtable.SymbolTable) -> None:
        for symbol in scope.get_symbols():
            name = symbol.get_name()
            if scope is not table and symbol.is_assigned() and symbol.is_declared_global():
                bound.add(name)
            is_global = symbol.is_global() or scope is table
            if is_global and symbol.is_referenced() and name not in MODULE_GLOBALS:
                missing.add(name)
        for child in scope.get_children():
            # Python gives postponed annotations a scope of their own; nothing evaluates them.
            if child.get_type() != "annotation" and child.get_name() != "_annotation":
                walk(child)

    walk(table)
    return sorted(missing - bound)


def is_type_checking(node: ast.AST) -> bool:
    """Whether a node is `if TYPE_CHECKING:`, in any spelling."""
    if not isinstance(node, ast.If):
        return False
    test = node.test
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def exported(tree: ast.Module) -> list[str] | None:
    """The names in the module's `__all__`, starred parts left out; None when it has no such list."""
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
            and isinstance(node.value, ast.List | ast.Tuple)
        ):
            return [e.value for e in node.value.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]
    return None


def docstring_end(tree: ast.Module) -> int:
    """The first line (1-based) after the module's docstring and leading comments on it, where imports may go."""
    if tree.body and isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant):
        assert tree.body[0].end_lineno is not None
        return tree.body[0].end_lineno + 1
    return tree.body[0].lineno if tree.body else 1


def has_future_annotations(tree: ast.Module) -> bool:
    """Whether the module already postpones the evaluation of annotations."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
