"""All that keeps a version of vLLM from being sliced, at once, and a draft of what its tables have to say.

For a version without tables of its own those of the nearest one are tried on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from infra.slice.assemble import Slice
from infra.slice.build import Upstream, collect
from infra.slice.errors import (
    CompiledCode,
    DeniedImport,
    MissingDefinition,
    MissingModule,
    OriginalChanged,
    OutsidePackage,
    SliceError,
    SlowImport,
    SourceError,
)
from infra.slice.hand import FOLDER, HandModules
from infra.slice.places import place
from infra.slice.registry import TABLES, registry
from infra.slice.sources import Sources
from infra.slice.spec import Specification
from infra.slice.versions import NEWEST, VERSIONS, specification


@dataclass(frozen=True)
class Finding:
    """One stop: where the specification speaks of it, what it says there, and what upstream has."""

    stop: SliceError
    place: str
    says: str
    upstream: str


@dataclass(frozen=True)
class Checked:
    """What a check found."""

    version: str
    tables: str
    """The version whose tables were tried."""
    findings: list[Finding]
    unused: list[tuple[str, str, str]]
    """Entries that nothing came of: (table, key, file and line)."""
    new: dict[str, list[str]]
    """Parsers that the version before it in the tables does not have, by kind."""
    gone: dict[str, list[str]]
    draft: list[str]
    """Lines of a delta."""


def tables_for(version: str) -> Specification:
    """The version's specification, or that of the nearest one, to be tried on it."""
    if version in VERSIONS:
        return specification(version)
    return dataclasses.replace(specification(nearest(version)), version=version, revision=1)


def nearest(version: str) -> str:
    """The version whose tables are tried on one that has no tables: the newest older one, or else the oldest."""
    return next((each for each in VERSIONS if _number(each) < _number(version)), VERSIONS[-1])


def check(version: str, upstream: Callable[[Specification], Upstream]) -> Checked:
    """Try a version's tables on its published code.

    Raises SourceError when the code cannot be had, or its parser registries cannot be read.
    """
    spec = tables_for(version)
    tables = version if version in VERSIONS else nearest(version)
    given = upstream(spec)
    sources = Sources(given.mounts())
    found = collect(spec, given)
    neighbour = _neighbour(version)
    now, before = registry(sources), registry(given.other(neighbour)) if neighbour else {}
    return Checked(
        version,
        tables,
        [_finding(stop, spec, tables, sources, given, neighbour) for stop in found.stops],
        [(table, key, _place_of(tables, key)) for table, key in found.unused if _counts(table, key, version)],
        {kind: sorted(now[kind].keys() - before.get(kind, {}).keys()) for kind, _ in TABLES} if neighbour else {},
        {kind: sorted(before.get(kind, {}).keys() - now[kind].keys()) for kind, _ in TABLES} if neighbour else {},
        draft(version, tables, found),
    )


def _neighbour(version: str) -> str | None:
    """The version whose parsers are compared: the next older one that has tables, or else the next newer."""
    number = _number(version)
    older = [each for each in VERSIONS if _number(each) < number]
    newer = [each for each in VERSIONS if _number(each) > number]
    return older[0] if older else newer[-1] if newer else None


def _number(version: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version.split("."))
    except ValueError as error:
        raise SourceError(f"{version} is not a released version of vllm") from error


def _counts(table: str, key: str, version: str) -> bool:
    """Whether an entry that is not used is worth telling: hand modules of all versions lie in one folder."""
    if table != "hand" or version not in VERSIONS or version == NEWEST:
        return True
    return HandModules(version).is_own(key)


def _place_of(tables: str, key: str) -> str:
    module, _, name = key.partition(":")
    found = place(tables, key) or place(tables, module, name)
    hand = HandModules(tables).path(key)
    if found is None and hand is not None:
        return hand.relative_to(FOLDER.parents[2]).as_posix()
    return found or "-"


def _finding(
    stop: SliceError, spec: Specification, tables: str, sources: Sources, given: Upstream, neighbour: str | None
) -> Finding:
    where = place(tables, stop.module, stop.name) or place(tables, stop.module.rpartition(".")[0])
    hand = HandModules(spec.version).path(stop.module)
    if isinstance(stop, OriginalChanged) and hand is not None:
        where = hand.relative_to(FOLDER.parents[2]).as_posix()
    return Finding(stop, where or "-", _says(stop, spec), _upstream(stop, sources))


def _says(stop: SliceError, spec: Specification) -> str:
    """What the specification has to say of a stop's module."""
    module, kinds = stop.module, []
    if HandModules(spec.version).path(module) is not None:
        kinds.append("written by hand")
    for table, word in (
        ("cut", "cut"), ("lazy", "lazy"), ("memoize", "memoized"), ("opaque", "opaque"), ("moved", "moved"),
        ("given", "given"), ("borrow", "borrowed"), ("compiled", "machine code"),
    ):  # fmt: skip
        if module in getattr(spec, table):
            kinds.append(word)
    denied = [entry for entry in spec.denied if module == entry or module.startswith(entry + ".")]
    kinds += [f"denied with {entry}" for entry in denied]
    roots = [root for root in spec.roots if root.partition(":")[0] == module]
    kinds += ["a root"] * bool(roots)
    return ", ".join(kinds) or "nothing"


def _upstream(stop: SliceError, sources: Sources) -> str:
    """What upstream has where the stop is: modules below the name, or where else the name is defined."""
    if isinstance(stop, MissingModule):
        last = stop.module.rpartition(".")[2]
        found = [name for name in sources.names() if name.rpartition(".")[2] == last][:5]
        return f"modules of that last name: {', '.join(found)}" if found else "no module of that last name"
    if isinstance(stop, MissingDefinition):
        return sources.where(stop.name, near=stop.module)
    return ""


def draft(version: str, tables: str, found: Slice) -> list[str]:
    """Lines of a delta that answer the stops which have one mechanical answer, and drop what is unused."""
    add: dict[str, set[str]] = {}
    drop: dict[str, set[str]] = {}
    by_hand: list[str] = []
    for stop in found.stops:
        if isinstance(stop, OutsidePackage) and stop.module in found.modules and found.modules[stop.module].source:
            kept = ", ".join(sorted(found.modules[stop.module].used))
            by_hand.append(f"{stop}: of the names that the cut keeps, {kept}, one is not needed (absent)")
        elif isinstance(stop, OutsidePackage):
            add.setdefault("third_party_late" if "inside" in str(stop) else "third_party", set()).add(repr(stop.name))
        elif isinstance(stop, CompiledCode):
            add.setdefault("compiled", set()).add(repr(stop.module))
        elif isinstance(stop, SlowImport):
            add.setdefault("prompt", set()).add(f"{stop.module!r}: ({stop.name!r},)")
        elif isinstance(stop, MissingModule) and stop.needed_by == "the list of denied modules":
            drop.setdefault("denied", set()).add(repr(stop.module))
        elif isinstance(stop, MissingModule) and stop.needed_by == "the roots":
            by_hand.append(f"{stop.module}: find it (moved), take it from another version (borrow), or drop the root")
        elif isinstance(stop, MissingDefinition) and stop.needed_by == "the roots":
            by_hand.append(f"{stop.module}:{stop.name}: take it from another version (borrow, given), or drop the root")
        elif isinstance(stop, DeniedImport):
            by_hand.append(f"{stop.needed_by}: cut the module, or write {stop.module} by hand")
        elif isinstance(stop, OriginalChanged):
            by_hand.append(f"{stop.module}: compare it with upstream, then `python -m infra.slice accept`")
        else:
            by_hand.append(str(stop))
    for table, key in found.unused:
        if table in ("cut", "lazy", "memoize", "opaque", "absent", "compiled", "borrow"):
            drop.setdefault(table, set()).add(repr(key))
    return list(_delta(version, tables, add, drop, by_hand))


def _delta(
    version: str, tables: str, add: dict[str, set[str]], drop: dict[str, set[str]], by_hand: list[str]
) -> Iterator[str]:
    module = "v{}_{}".format(*tables.split(".")[:2])
    yield f"SPECIFICATION = {module}.SPECIFICATION.but("
    yield f'    version="{version}",'
    yield "    revision=1,"
    for word, tables_of in (("add", add), ("drop", drop)):
        if tables_of:
            yield f"    {word}={{"
            for table, keys in sorted(tables_of.items()):
                yield f'        "{table}": {{{", ".join(sorted(keys))}}},'
            yield "    },"
    yield ")"
    for line in by_hand:
        yield f"# to decide: {line}"


def lines(checked: Checked) -> Iterator[str]:
    """The check as text."""
    if checked.tables != checked.version:
        yield f"no tables for vllm {checked.version}: those of {checked.tables} were tried"
    for number, finding in enumerate(checked.findings, 1):
        yield f"{number:3} {finding.place}: {finding.stop}"
        yield f"      the specification says: {finding.says}" + f"; upstream: {finding.upstream}" * bool(
            finding.upstream
        )
        if finding.stop.needed_by_more:
            yield f"      also needed by: {', '.join(finding.stop.needed_by_more)}"
    yield f"{len(checked.findings)} stops"
    for table, key, where in checked.unused:
        yield f"unused: {table} {key} ({where})"
    for word, parsers in (("new", checked.new), ("gone", checked.gone)):
        for kind, names in parsers.items():
            yield f"{word} {kind} parsers: {', '.join(names) or 'none'}"
    if checked.findings or checked.unused:
        yield "\na draft of the delta:\n"
        yield from checked.draft
