"""Which names of a module can wait: what it imports from slow modules, and the aliases that are made of them.

A parser's module imports the Responses types, which cost more than everything else that a chat loads. Which modules do
is found here, from their syntax trees, so that a parser that is new in a version of vLLM waits without being named.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from infra.slice.defer import Uses, imported
from infra.slice.lazy import lazy_names
from infra.slice.names import bound_by, references
from infra.slice.sources import ModuleSource


@dataclass(frozen=True)
class Late:
    """The names of one module: `waiting` can be deferred, `prompt` are slow too, but used while it is imported."""

    waiting: frozenset[str]
    prompt: frozenset[str]


_NOTHING = Late(frozenset(), frozenset())


class LateNames:
    """Finds the names that can wait, module by module."""

    def __init__(
        self,
        find: Callable[[str], ModuleSource | None],
        slow: Collection[str],
        lazy: Collection[str],
        opaque: Mapping[str, Collection[str]],
    ) -> None:
        """Take where the modules are and which are slow.

        Parameters
        ----------
        find
            The source of a module that is copied or lazy, its imports redirected; None for every other.
        slow
            `module`, with everything below it, or `module:name`.
        lazy
            Modules whose names are each loaded on first use.
        opaque
            Annotations, by module, that nothing evaluates.
        """
        self._find = find
        self._modules = tuple(entry for entry in slow if ":" not in entry)
        self._names = frozenset(entry for entry in slow if ":" in entry)
        self._lazy = lazy
        self._opaque = opaque
        self._known: dict[str, Late] = {}

    def is_slow(self, module: str) -> bool:
        """Whether a module is a slow one, or lies below one."""
        return any(module == slow or module.startswith(slow + ".") for slow in self._modules)

    def of(self, module: str) -> Late:
        """The names of a module that the slice has."""
        if module not in self._known:
            # Modules that import each other: the one that was asked for first sees nothing slow in the other.
            self._known[module] = _NOTHING
            source = self._find(module)
            if source is not None and not self.is_slow(module):
                self._known[module] = self._lazily(source) if module in self._lazy else self._copied(source)
        return self._known[module]

    def _lazily(self, source: ModuleSource) -> Late:
        table = lazy_names(source, self._find)
        found = {name for name, entry in table.items() if entry.origin and self._waits(entry.origin, entry.attribute)}
        return Late(frozenset(found), frozenset())

    def _waits(self, module: str, name: str | None) -> bool:
        if self.is_slow(module) or (name is not None and self.is_slow(f"{module}.{name}")):
            return True
        if f"{module}:{name}" in self._names:
            return True
        return name is not None and module.startswith("vllm") and name in self.of(module).waiting

    def _copied(self, source: ModuleSource) -> Late:
        return self.in_text(source.name, source.package, source.text)

    def in_text(self, module: str, package: str, text: str) -> Late:
        """The names of one module's text, which may have been cut down."""
        tree = ast.parse(text)
        slow = {name for name, entry in imported(tree, package).items() if self._waits(*entry)}
        return settled(tree, slow, self._opaque.get(module, ()))


def settled(tree: ast.Module, slow: Collection[str], opaque: Collection[str] = ()) -> Late:
    """Which of the slow names, and of the aliases made of them, the module does not use while it is imported."""
    waiting, refused = set(slow), set[str]()
    aliases = _aliases(tree)
    while True:
        more = {name for name, value in aliases.items() if references(value) & waiting} - refused - waiting
        waiting |= more
        uses = Uses(frozenset(waiting), frozenset(opaque))
        for statement in tree.body:
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                uses.visit(statement)
        bad = (uses.at_import | uses.rebound) & waiting
        if not bad and not more:
            return Late(frozenset(waiting), frozenset(refused & set(slow)))
        waiting -= bad
        refused |= bad


def _aliases(tree: ast.Module) -> Mapping[str, ast.expr]:
    """The names that the module binds once, by an assignment at its top level, with their values."""
    found: dict[str, ast.expr] = {}
    bound: list[str] = []
    for statement in tree.body:
        bound.extend(bound_by(statement))
        target: ast.expr | None = None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if isinstance(target, ast.Name) and value is not None:
            found[target.id] = value
    return {name: value for name, value in found.items() if bound.count(name) == 1}
