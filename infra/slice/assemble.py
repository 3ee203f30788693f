"""Collects the slice: from the root modules, everything reachable, each module transformed as the specification says.

Modules that the specification does not name are copied unmodified, apart from redirected third-party imports.
"""

from __future__ import annotations

import ast
from collections import deque
from dataclasses import dataclass, field

from infra.slice.cut import cut
from infra.slice.defer import defer
from infra.slice.errors import MissingDefinition, MissingModule, SliceError, UnboundName
from infra.slice.lazy import LazyName, lazy_module, lazy_names
from infra.slice.memoize import memoize
from infra.slice.names import bound_by, exported, unbound_globals
from infra.slice.reach import Edge, imports
from infra.slice.redirect import redirect
from infra.slice.sources import ModuleSource, Sources
from infra.slice.spec import Specification

_DENIED = '''\
"""Left out of the slice."""

from vllm._slice.denied import DeniedModule

raise DeniedModule(__name__)
'''


@dataclass
class Built:
    """One module of the slice."""

    name: str
    path: str
    kind: str
    text: str
    package: str
    names: set[str] = field(default_factory=set)
    """What the module binds at its top level or loads on first use."""
    lazy: dict[str, LazyName] | None = None
    used: set[str] = field(default_factory=set)
    """For lazy modules: the names that the slice needs."""


@dataclass
class Slice:
    """The collected modules and what they import from outside."""

    modules: dict[str, Built]
    denied: dict[str, str]
    """Path by name of the modules that raise when they are imported."""
    third_party: dict[str, set[str]]
    """Top-level packages imported when a module is, with the modules that do."""
    third_party_late: dict[str, set[str]]
    """The same for imports inside functions."""


class _Assembly:
    def __init__(self, spec: Specification, sources: Sources) -> None:
        self.spec = spec
        self.sources = sources
        self.built: dict[str, Built] = {}
        self.denied: dict[str, str] = {}
        self.third_party: dict[str, set[str]] = {}
        self.third_party_late: dict[str, set[str]] = {}
        self.queue: deque[tuple[Edge, str]] = deque()

    # -- sources ------------------------------------------------------------------------------------------------

    def hand(self, module: str) -> ModuleSource | None:
        """Our own module of that name."""
        if module not in self.spec.hand:
            return None
        base = self.spec.hand_folder / module.replace(".", "/")
        for path, is_package in ((base / "__init__.py", True), (base.with_suffix(".py"), False)):
            if path.is_file():
                inner = path.relative_to(self.spec.hand_folder).as_posix()
                return ModuleSource(module, inner, is_package, path.read_text(encoding="utf-8"))
        raise MissingModule(module, "the list of hand-written modules")

    def find(self, module: str) -> ModuleSource | None:
        return self.hand(module) or self.sources.find(module)

    def is_denied(self, module: str) -> bool:
        """Whether a module lies below a denied one, and is not itself replaced by name."""
        if self.spec.names(module):
            return False
        return any(module == d or module.startswith(d + ".") for d in self.spec.denied)

    # -- building -----------------------------------------------------------------------------------------------

    def build(self, module: str, needed_by: str) -> Built:
        if module in self.built:
            return self.built[module]
        source = self.find(module)
        if source is None:
            raise MissingModule(module, needed_by)
        kind, text = "copy", source.text
        lazy: dict[str, LazyName] | None = None
        extra: list[Edge] = []
        by = "the specification of the slice"
        if module in self.spec.hand:
            kind = "hand"
        elif module in self.spec.lazy:
            kind = "lazy"
            lazy = lazy_names(source, self.find, by)
            text = lazy_module(source, lazy, ())
        else:
            if module in self.spec.cut:
                kind = "slice"
                entry = self.spec.cut[module]
                text = cut(module, text, entry.names, fields_of_classes=entry.fields, needed_by=by)
            redirected_text = redirect(module, text, self.spec.redirects)
            if redirected_text != text:
                kind += "+redirect"
                text = redirected_text
            if module in self.spec.defer:
                kind += "+defer"
                late = self.spec.defer[module]
                text, deferred = defer(module, source.package, text, late.names, by, opaque=late.opaque)
                extra = [Edge(d.module, d.attribute, True, 0) for d in deferred.values()]
            if module in self.spec.memoize:
                kind += "+memoize"
                text = memoize(module, text, self.spec.memoize[module], by)
        built = Built(module, source.path, kind, text, source.package, lazy=lazy)
        self.built[module] = built
        if lazy is None:
            tree = ast.parse(text)
            for statement in tree.body:
                built.names |= bound_by(statement)
            # A module with a `__getattr__` of its own says in `__all__` what it can load.
            built.names |= set(exported(tree) or ())
            if module in self.spec.defer:
                built.names |= set(self.spec.defer[module].names)
            for edge in [*imports(text, source.package), *extra]:
                self.queue.append((edge, module))
            unbound = unbound_globals(text, source.path)
            if unbound:
                raise UnboundName(module, unbound)
        else:
            built.names = set(lazy)
        return built

    def use(self, built: Built, name: str, needed_by: str, late: bool) -> None:
        """A name is imported from a module: it must be there, and a lazy module has to be able to load it."""
        if name == "*":
            if built.lazy is not None:
                for each in sorted(built.lazy):
                    self.use(built, each, needed_by, late)
            return
        if name in built.names:
            if built.lazy is not None and name not in built.used:
                built.used.add(name)
                entry = built.lazy[name]
                for read in entry.reads:
                    self.use(built, read, needed_by, late)
                if entry.origin is not None:
                    self.queue.append((Edge(entry.origin, entry.attribute, late, 0), built.name))
            return
        submodule = f"{built.name}.{name}"
        if self.is_denied(submodule) and self.sources.find(submodule) is not None:
            self.deny(submodule, needed_by, late)
        elif self.find(submodule) is not None:
            self.build(submodule, needed_by)
        elif not (late and f"{built.name}:{name}" in self.spec.absent):
            raise MissingDefinition(built.name, name, needed_by)

    def deny(self, module: str, needed_by: str, late: bool) -> None:
        if not late:
            raise SliceError(f"{needed_by} imports {module!r}, which is denied, at import time")
        # One module that raises is enough: nothing below it can be imported.
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name in self.built:
                continue
            if self.is_denied(name):
                source = self.sources.find(name)
                self.denied[name] = source.path if source else name.replace(".", "/") + ".py"
                return
            self.build(name, needed_by)

    def follow(self, edge: Edge, needed_by: str) -> None:
        top = edge.module.partition(".")[0]
        if top != "vllm":
            (self.third_party_late if edge.late else self.third_party).setdefault(top, set()).add(needed_by)
            return
        who = f"{needed_by}:{edge.line}" if edge.line else needed_by
        parts = edge.module.split(".")
        if self.is_denied(edge.module):
            self.deny(edge.module, who, edge.late)
            return
        for end in range(1, len(parts)):
            parent = ".".join(parts[:end])
            if self.is_denied(parent):
                self.deny(parent, who, edge.late)
                return
            self.build(parent, who)
        if edge.late and f"{edge.module}" in self.spec.absent:
            return
        built = self.build(edge.module, who)
        if edge.name is not None:
            self.use(built, edge.name, who, edge.late)

    def run(self) -> Slice:
        for root in self.spec.roots:
            module, _, names = root.partition(":")
            self.queue.append((Edge(module, None, False, 0), "the roots"))
            for name in filter(None, names.split(",")):
                self.queue.append((Edge(module, name, False, 0), "the roots"))
        while self.queue:
            edge, needed_by = self.queue.popleft()
            self.follow(edge, needed_by)
        for built in self.built.values():
            if built.lazy is not None:
                source = self.find(built.name)
                assert source is not None
                built.text = lazy_module(source, built.lazy, built.used)
        for name in self.spec.denied:
            if not self.spec.names(name):
                source = self.sources.find(name)
                if source is None:
                    raise MissingModule(name, "the list of denied modules")
                self.denied.setdefault(name, source.path)
        return Slice(self.built, self.denied, self.third_party, self.third_party_late)


def assemble(spec: Specification, sources: Sources) -> Slice:
    """Collect the slice. Raises a SliceError that names what is missing."""
    return _Assembly(spec, sources).run()


def denied_text() -> str:
    """Source of a module that was left out: importing it raises."""
    return _DENIED
