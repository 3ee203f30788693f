"""Collects the slice: from the root modules, everything reachable, each module transformed as the specification says.

Modules that the specification does not name are copied unmodified, apart from redirected third-party imports and the
imports of slow modules, which wait for their first use. All that is wrong is collected, and told together.
"""

from __future__ import annotations

import ast
import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from infra.slice import compiled
from infra.slice.cut import cut
from infra.slice.defer import defer
from infra.slice.errors import (
    CompiledCode,
    DeniedImport,
    MissingDefinition,
    MissingModule,
    SliceError,
    SlowImport,
    Stopped,
    UnboundName,
)
from infra.slice.given import give
from infra.slice.hand import HandModules
from infra.slice.late import LateNames
from infra.slice.lazy import LazyName, lazy_module, lazy_names
from infra.slice.members import narrow
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
    source: ModuleSource | None = None
    """For modules that are cut: what they are cut from."""
    used: set[str] = field(default_factory=set)
    """For lazy modules and those that are cut: the names that the slice needs."""


@dataclass
class Slice:
    """The collected modules and what they import from outside."""

    modules: dict[str, Built]
    denied: dict[str, str]
    """Path by name of the modules that raise when they are imported."""
    compiled: set[str]
    """The modules of machine code, of which `modules` has the loaders."""
    third_party: dict[str, set[str]]
    """Top-level packages imported when a module is, with the modules that do."""
    third_party_late: dict[str, set[str]]
    """The same for imports inside functions."""
    stops: list[SliceError]
    """All that is wrong, in the order in which it was met."""
    unused: list[tuple[str, str]]
    """Entries of the specification that nothing came of: (table, key)."""


class _Assembly:
    def __init__(
        self, spec: Specification, sources: Sources, hand: HandModules, other: Callable[[str], Sources]
    ) -> None:
        self.spec = spec
        self.sources = sources
        self.hand = hand
        self.other = other
        self.built: dict[str, Built] = {}
        self.denied: dict[str, str] = {}
        self.compiled: set[str] = set()
        self.third_party: dict[str, set[str]] = {}
        self.third_party_late: dict[str, set[str]] = {}
        self.queue: deque[tuple[Edge, str]] = deque()
        self.stops: dict[tuple[type, str, str], SliceError] = {}
        self.broken: set[str] = set()
        """Modules of which something is wrong already: what else is wrong with them follows from that."""
        self.met: set[tuple[str, str]] = set()
        """Entries of the specification that something came of."""
        self.late = LateNames(self._plain, spec.slow, spec.lazy, spec.opaque)

    def stop(self, error: SliceError) -> None:
        """Note what is wrong. The same thing, needed by several, is one."""
        known = self.stops.setdefault((type(error), error.module, error.name), error)
        if known is not error and isinstance(error, MissingModule | MissingDefinition | DeniedImport | CompiledCode):
            known.needed_by_more.append(error.needed_by)

    # -- sources ------------------------------------------------------------------------------------------------

    def find(self, module: str) -> ModuleSource | None:
        """Our own module of that name, or one from another version, or upstream's."""
        own = self.hand.find(module)
        if own is not None:
            return dataclasses.replace(own, text=redirect(module, own.text, self.spec.moved))
        if module in self.spec.borrow:
            borrowed = self.spec.borrow[module]
            self.met.add(("borrow", module))
            source = self.other(borrowed.version).find(borrowed.module or module)
            if source is None:
                raise MissingModule(borrowed.module or module, f"the modules borrowed from {borrowed.version}")
            path = source.path if not borrowed.module else module.replace(".", "/") + ".py"
            text = redirect(module, source.text, self.spec.moved)
            return ModuleSource(module, path, source.is_package and not borrowed.module, text)
        return self.sources.find(module)

    def _plain(self, module: str) -> ModuleSource | None:
        """The source of a module that is copied or lazy, redirected."""
        if self.is_denied(module) or module in self.spec.cut or self.hand.path(module) is not None:
            return None
        source = self.find(module)
        if source is None or module in self.spec.lazy:
            return source
        return dataclasses.replace(source, text=redirect(module, source.text, self.spec.redirects))

    def replaces(self, module: str) -> bool:
        """Whether the specification has something else in the place of this module."""
        named = module in self.spec.cut or module in self.spec.lazy or module in self.spec.borrow
        return named or self.hand.path(module) is not None

    def is_denied(self, module: str) -> bool:
        """Whether a module lies below a denied one, and is not itself replaced by name."""
        if self.replaces(module):
            return False
        return any(module == d or module.startswith(d + ".") for d in self.spec.denied)

    # -- building -----------------------------------------------------------------------------------------------

    def build(self, module: str, needed_by: str) -> Built:
        if module in self.built:
            return self.built[module]
        try:
            return self._build(module, needed_by)
        except SliceError:
            self.broken.add(module)
            raise

    def _build(self, module: str, needed_by: str) -> Built:
        source = self.find(module)
        if source is None:
            return self._without_source(module, needed_by)
        built = Built(module, source.path, "copy", source.text, source.package)
        self.built[module] = built
        if self.hand.path(module) is not None:
            built.kind = "hand"
            changed = self.hand.changed(module, self.sources)
            if changed is not None:
                self.stop(changed)
            self._ready(built)
        elif module in self.spec.lazy:
            self.met.add(("lazy", module))
            built.kind = "lazy"
            built.lazy = lazy_names(source, self.find)
            built.names = set(built.lazy)
        elif module in self.spec.cut:
            self.met.add(("cut", module))
            members = self.spec.cut[module].members
            if members:
                source = dataclasses.replace(source, text=narrow(module, source.text, members))
            built.kind, built.source = "slice", source
            tree = ast.parse(source.text)
            built.names = {name for statement in tree.body for name in bound_by(statement)}
            built.names |= self.spec.given.get(module, {}).keys()
            for name in self.spec.cut[module].also:
                self.use(built, name, "the specification", late=False)
            self._transform(built)
        else:
            self._transform(built)
        return built

    def _without_source(self, module: str, needed_by: str) -> Built:
        if module in self.spec.moved:
            self.met.add(("moved", module))
            built = Built(module, module.replace(".", "/") + ".py", "moved", "", module.rpartition(".")[0], lazy={})
        elif self.sources.compiled(module) is not None:
            if module not in self.spec.compiled:
                raise CompiledCode(module, needed_by)
            self.met.add(("compiled", module))
            self.compiled.add(module)
            path = f"{compiled.folder(module)}/__init__.py"
            built = Built(module, path, "compiled", compiled.loader(), module)
        else:
            raise MissingModule(module, needed_by)
        self.built[module] = built
        return built

    def _transform(self, built: Built) -> None:
        """Make the module's text from its source, as the specification says, and go on with what it imports."""
        module, kind = built.name, built.kind.partition("+")[0]
        given = self.spec.given.get(module, {})
        text = built.text
        if built.source is not None:
            fields = self.spec.cut[module].fields
            text = cut(module, built.source.text, built.used, given=given, fields_of_classes=fields)
        elif given:
            text = give(text, given)
        if given:
            kind += "+given"
            self.met |= {("given", f"{module}:{name}") for name in given}
        if module in self.spec.borrow:
            kind += "+borrow"
        redirected_text = redirect(module, text, self.spec.redirects)
        if redirected_text != text:
            kind += "+redirect"
            text = redirected_text
        text, names, edges = self._deferred(module, built.package, text)
        if names:
            kind += "+defer"
        if module in self.spec.memoize:
            kind += "+memoize"
            self.met.add(("memoize", module))
            text = memoize(module, text, self.spec.memoize[module], "the specification")
        built.kind, built.text = kind, text
        built.names |= names
        self._ready(built, edges)

    def _deferred(self, module: str, package: str, text: str) -> tuple[str, set[str], list[Edge]]:
        """The text with what can wait deferred, the names, and what they stand for."""
        if self.late.is_slow(module):
            return text, set(), []
        found = self.late.in_text(module, package, text)
        prompt = self.spec.prompt.get(module, ())
        for name in sorted(found.prompt):
            if name in prompt:
                self.met.add(("prompt", f"{module}:{name}"))
            else:
                self.stop(SlowImport(module, name))
        opaque = self.spec.opaque.get(module, ())
        if opaque:
            self.met.add(("opaque", module))
        if not found.waiting and not opaque:
            return text, set(), []
        text, deferred = defer(module, package, text, found.waiting, "the specification", opaque=opaque)
        edges = [Edge(d.module, d.attribute, True, 0) for d in deferred.values()]
        return text, set(found.waiting), edges

    def _ready(self, built: Built, more: list[Edge] | None = None) -> None:
        tree = ast.parse(built.text)
        if built.source is None:
            for statement in tree.body:
                built.names |= bound_by(statement)
            # A module with a `__getattr__` of its own says in `__all__` what it can load.
            built.names |= set(exported(tree) or ())
        for edge in [*imports(built.text, built.package), *(more or ())]:
            self.queue.append((edge, built.name))
        unbound = unbound_globals(built.text, built.path)
        if unbound:
            self.stop(UnboundName(built.name, unbound))

    def use(self, built: Built, name: str, needed_by: str, late: bool) -> None:
        """A name is imported from a module: it must be there, and a module that is not whole has to have it."""
        if name == "*":
            if built.lazy is not None:
                for each in sorted(built.lazy):
                    self.use(built, each, needed_by, late)
            return
        if late and f"{built.name}:{name}" in self.spec.absent:
            self.met.add(("absent", f"{built.name}:{name}"))
            return
        if built.kind == "moved" and built.lazy is not None and name not in built.lazy:
            origin = self.spec.moved[built.name]
            built.lazy[name] = LazyName(f"from {origin} import {name}", (name,), (), origin, name)
            built.names.add(name)
        if name in built.names:
            if name in built.used:
                return
            if built.lazy is not None:
                built.used.add(name)
                entry = built.lazy[name]
                for read in entry.reads:
                    self.use(built, read, needed_by, late)
                if entry.origin is not None:
                    self.queue.append((Edge(entry.origin, entry.attribute, late, 0), needed_by))
            elif built.source is not None:
                built.used.add(name)
                self._transform(built)
            return
        if built.name in self.broken:
            return
        submodule = f"{built.name}.{name}"
        if self.is_denied(submodule) and self.sources.find(submodule) is not None:
            self.deny(submodule, needed_by, late)
        elif self.find(submodule) is not None:
            self.build(submodule, needed_by)
        else:
            raise MissingDefinition(built.name, name, needed_by)

    def deny(self, module: str, needed_by: str, late: bool) -> None:
        if not late:
            raise DeniedImport(module, needed_by)
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
            if parent in self.broken:
                return
            if self.is_denied(parent):
                self.deny(parent, who, edge.late)
                return
            self.build(parent, who)
        if edge.late and edge.module in self.spec.absent:
            self.met.add(("absent", edge.module))
            return
        if edge.module in self.broken:
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
        followed: set[tuple[str, str | None, bool, str]] = set()
        while self.queue:
            edge, needed_by = self.queue.popleft()
            key = (edge.module, edge.name, edge.late, needed_by)
            if key in followed:
                continue
            followed.add(key)
            try:
                self.follow(edge, needed_by)
            except SliceError as error:
                self.stop(error)
        for built in self.built.values():
            if built.lazy is not None:
                source = self.find(built.name)
                whole = source or ModuleSource(built.name, built.path, False, "")
                built.text = lazy_module(whole, built.lazy, built.used)
        for name in sorted(self.spec.denied):
            if not self.replaces(name):
                source = self.sources.find(name)
                if source is None:
                    self.stop(MissingModule(name, "the list of denied modules"))
                else:
                    self.denied.setdefault(name, source.path)
        return Slice(
            self.built, self.denied, self.compiled, self.third_party, self.third_party_late,
            list(self.stops.values()), self._unused(),
        )  # fmt: skip

    def _unused(self) -> list[tuple[str, str]]:
        entries: list[tuple[str, str]] = []
        for table in ("cut", "lazy", "memoize", "opaque", "borrow", "compiled", "absent"):
            entries += [(table, key) for key in sorted(getattr(self.spec, table))]
        for table in ("prompt", "given"):
            named: Mapping[str, Mapping[str, str] | tuple[str, ...]] = getattr(self.spec, table)
            entries += [(table, f"{module}:{name}") for module in sorted(named) for name in sorted(named[module])]
        entries += [("hand", module) for module in sorted(self.hand.all()) if module not in self.built]
        return [entry for entry in entries if entry not in self.met]


def survey(spec: Specification, sources: Sources, hand: HandModules, other: Callable[[str], Sources]) -> Slice:
    """Collect the slice, with all that is wrong.

    `other` gives the sources of another version of vLLM, from which modules are borrowed.
    """
    return _Assembly(spec, sources, hand, other).run()


def assemble(spec: Specification, sources: Sources, hand: HandModules, other: Callable[[str], Sources]) -> Slice:
    """Collect the slice. Raises Stopped with everything that is wrong."""
    found = survey(spec, sources, hand, other)
    if found.stops:
        raise Stopped(found.stops)
    return found


def denied_text() -> str:
    """Source of a module that was left out: importing it raises."""
    return _DENIED
