"""DEFER: named module-level imports of a copied module are loaded on first use instead of at import.

Every use inside a function is rewritten to read from the module's `_deferred` namespace (see hand/vllm/_slice). Type
aliases can be deferred as well, with the names that they are made of. A type check against a deferred class does not
load its module: no instance can exist of a class whose module was never loaded.

A name that the module uses while it is imported, or that it binds a second time, cannot be deferred: the build stops.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from infra.slice.edits import SourceEdits
from infra.slice.errors import MissingDefinition, UnsupportedShape
from infra.slice.names import bound_by, docstring_end, has_future_annotations, is_type_checking, references
from infra.slice.reach import absolute


@dataclass(frozen=True)
class Deferral:
    """What one deferred import stands for: an attribute of a module, or the module itself when `attribute` is None."""

    module: str
    attribute: str | None


def _quoted(annotation: ast.expr) -> set[str]:
    """Names inside the string parts of an annotation."""
    found: set[str] = set()
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            with contextlib.suppress(SyntaxError):
                found |= references(ast.parse(node.value, mode="eval").body)
    return found


class Uses(ast.NodeVisitor):
    """Sorts the uses of the deferred names into rewritable ones and those at import time."""

    def __init__(self, names: frozenset[str], opaque: frozenset[str]) -> None:
        self.names = names
        self.opaque = opaque
        self.reads: list[ast.Name] = []
        self.checks: list[ast.Call] = []
        self.hidden: list[ast.expr] = []
        self.annotations: list[ast.expr] = []
        self.aliases: list[ast.Assign | ast.AnnAssign] = []
        self.at_import: set[str] = set()
        self.rebound: set[str] = set()
        self._depth = 0
        self._in_class = False

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.name in self.names:
            self.rebound.add(node.name)
        was, self._in_class = self._in_class, True
        self.generic_visit(node)
        self._in_class = was

    def visit_Name(self, node: ast.Name) -> None:
        if node.id not in self.names:
            return
        if not isinstance(node.ctx, ast.Load):
            self.rebound.add(node.id)
        elif self._depth:
            self.reads.append(node)
        else:
            self.at_import.add(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        if node.arg in self.names:
            self.rebound.add(node.arg)
        self._signature(node.annotation)

    def _signature(self, node: ast.expr | None) -> None:
        """Note an annotation that Python would evaluate, and that nothing else does."""
        if node is not None and references(node) & self.names:
            self.annotations.append(node)

    def _alias(self, node: ast.Assign | ast.AnnAssign, target: ast.expr) -> bool:
        """Take `NAME = value` at the top level for a deferred NAME; its value then runs later."""
        if self._depth or self._in_class or node.value is None:
            return False
        if not isinstance(target, ast.Name) or target.id not in self.names:
            return False
        self.aliases.append(node)
        self._depth += 1
        self.visit(node.value)
        self._depth -= 1
        return True

    def visit_Assign(self, node: ast.Assign) -> None:
        if not self._alias(node, node.targets[0]):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._alias(node, node.target):
            return
        if self._in_class and not self._depth:
            # pydantic, msgspec and dataclasses may evaluate the annotations of a class's fields.
            self._annotation(node.annotation)
        else:
            self._signature(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self.visit(node.target)

    def _annotation(self, node: ast.expr) -> None:
        if ast.unparse(node) in self.opaque:
            self.hidden.append(node)
            return
        if isinstance(node, ast.Name) and node.id in self.names:
            self.at_import.add(node.id)
        elif isinstance(node, ast.Constant):
            self.at_import |= self.names & _quoted(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._annotation(child)

    def visit_alias(self, node: ast.alias) -> None:
        if (node.asname or node.name) in self.names:
            self.rebound.add(node.asname or node.name)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in self.names:
            self.rebound.add(node.name)
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.visit(node.args)
        self._signature(node.returns)
        self._depth += 1
        for statement in node.body:
            self.visit(statement)
        self._depth -= 1

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._depth += 1
        self.visit(node.body)
        self._depth -= 1

    def visit_If(self, node: ast.If) -> None:
        if is_type_checking(node):
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if (
            self._depth
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
            and len(node.args) == 2
            and self._classes(node.args[1])
        ):
            self.checks.append(node)
            self.visit(node.args[0])
            return
        self.generic_visit(node)

    def _classes(self, node: ast.expr) -> bool:
        """Whether the second argument of isinstance is a deferred name or a tuple of names that has one."""
        if isinstance(node, ast.Name):
            return node.id in self.names
        return (
            isinstance(node, ast.Tuple)
            and all(isinstance(e, ast.Name | ast.Attribute) for e in node.elts)
            and any(isinstance(e, ast.Name) and e.id in self.names for e in node.elts)
        )


def imported(tree: ast.Module, package: str) -> dict[str, tuple[str, str | None]]:
    """What a module's top-level imports bind and could be deferred: (module, attribute; None for the module itself)."""
    found: dict[str, tuple[str, str | None]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module != "__future__":
            origin = absolute(statement, package)
            found |= {a.asname or a.name: (origin, a.name) for a in statement.names if a.name != "*"}
        elif isinstance(statement, ast.Import):
            # `import a.b` binds `a`, not the module named: only `import a` and `import a.b as c` can be deferred.
            found |= {a.asname or a.name: (a.name, None) for a in statement.names if a.asname or "." not in a.name}
    return found


def _take_imports(tree: ast.Module, package: str, wanted: frozenset[str], edits: SourceEdits) -> dict[str, Deferral]:
    """Remove the wanted names from the module's top-level imports; what they stood for."""
    found: dict[str, Deferral] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module != "__future__":
            origin = absolute(statement, package)
            hits = [a for a in statement.names if (a.asname or a.name) in wanted]
            rest = [a for a in statement.names if a not in hits]
            found |= {a.asname or a.name: Deferral(origin, a.name) for a in hits}
            left = ast.unparse(ast.ImportFrom(module=statement.module, names=rest, level=statement.level))
        elif isinstance(statement, ast.Import):
            # `import a.b` binds `a`, not the module named: only `import a` and `import a.b as c` can be deferred.
            hits = [a for a in statement.names if (a.asname or a.name) in wanted]
            rest = [a for a in statement.names if a not in hits]
            found |= {a.asname or a.name: Deferral(a.name, None) for a in hits}
            left = ast.unparse(ast.Import(names=rest))
        else:
            continue
        if hits:
            edits.replace(statement, left if rest else "", keep_lines=True)
    return found


def _rewrite(uses: Uses, edits: SourceEdits) -> None:
    for call in uses.checks:
        classes = call.args[1]
        elements = classes.elts if isinstance(classes, ast.Tuple) else [classes]
        # Deferred classes go by name, so that the check need not load them.
        given = [f'"{e.id}"' if isinstance(e, ast.Name) and e.id in uses.names else edits.segment(e) for e in elements]
        edits.replace(call.func, "_deferred.holds")
        edits.replace(classes, f"({', '.join(given)},)")
    for name in uses.reads:
        edits.replace(name, f"_deferred.{name.id}")
    for node in uses.hidden:
        edits.replace(node, "object")
    for alias in uses.aliases:
        target = alias.target if isinstance(alias, ast.AnnAssign) else alias.targets[0]
        assert isinstance(target, ast.Name)
        start, end = edits.span(alias)
        after = edits.span(alias.annotation if isinstance(alias, ast.AnnAssign) else target)[1]
        edits.replace_span(start, edits.find("=", after) + 1, f'_deferred.define("{target.id}", lambda: (')
        edits.replace_span(end, end, "))")


def defer(
    module: str, package: str, text: str, names: Iterable[str], needed_by: str, *, opaque: Iterable[str] = ()
) -> tuple[str, dict[str, Deferral]]:
    """The module's text with `names` deferred, and what each deferred import stands for.

    Parameters
    ----------
    module, package, text
        The module's name, the package that its relative imports start from, and its source.
    names
        Names that the module imports, or assigns once, at its top level.
    opaque
        Expressions in the annotations of class fields that are replaced by `object`: types that nothing looks at,
        because the schema is given beside them.

    Raises MissingDefinition when the module does not bind a name or has no such annotation, UnsupportedShape when a
    name is used at import time or bound twice.
    """
    wanted = frozenset(names)
    hidden = frozenset(opaque)
    tree = ast.parse(text)
    edits = SourceEdits(text)
    found = _take_imports(tree, package, wanted, edits)
    uses = Uses(wanted, hidden)
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            uses.visit(statement)
    aliased = {name for alias in uses.aliases for name in bound_by(alias)}
    for name in sorted(wanted - found.keys() - aliased):
        raise MissingDefinition(module, name, needed_by)
    for name in sorted(hidden - {ast.unparse(node) for node in uses.hidden}):
        raise MissingDefinition(module, name, needed_by)
    if uses.at_import:
        raise UnsupportedShape(module, f"uses {', '.join(sorted(uses.at_import))} at import time: cannot be deferred")
    if uses.rebound or aliased & found.keys():
        twice = sorted(uses.rebound | (aliased & found.keys()))
        raise UnsupportedShape(module, f"binds {', '.join(twice)} again: cannot be deferred")
    _rewrite(uses, edits)
    if not has_future_annotations(tree):
        # Quoted one by one: postponing all of them can change what pydantic and msgspec make of the others.
        for annotation in uses.annotations:
            lines = "\n" * edits.segment(annotation).count("\n")
            quoted = repr(ast.unparse(annotation))
            edits.replace(annotation, f"({quoted}{lines})" if lines else quoted)

    table = ", ".join(
        f'{name}="{entry.module}{":" + entry.attribute if entry.attribute else ""}"'
        for name, entry in sorted(found.items())
    )
    first = docstring_end(tree)
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            assert statement.end_lineno is not None
            first = max(first, statement.end_lineno + 1)
    edits.insert_line(
        first,
        "from vllm._slice.deferred import Deferred as _Deferred\n"
        f"_deferred = _Deferred(__name__, {table})\n__getattr__ = _deferred.__getattr__\n",
    )
    return edits.apply(), found
