"""All that keeps a version of vLLM from being sliced, at once, and a draft of what its tables have to say.

For a version without tables of its own those of the nearest one are tried on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import unified_diff

from infra.slice.build import Upstream, collect
from infra.slice.draft import draft
from infra.slice.errors import MissingDefinition, MissingModule, OriginalChanged, SliceError, SourceError
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
        draft(version, tables, spec.roots, found),
    )


def compared(version: str, module: str, given: Upstream) -> Iterator[str]:
    """What changed in upstream's module since the version beside this one, as a unified diff."""
    newer = [each for each in VERSIONS if _number(each) > _number(version)]
    other = newer[-1] if newer else _neighbour(version)
    if other is None:
        raise SourceError(f"there is no version to compare vllm {version} with")
    sides = (given.other(other), Sources(given.mounts()))
    before, now = (side.find(module) for side in sides)
    yield from unified_diff(
        before.text.splitlines() if before else [],
        now.text.splitlines() if now else [],
        f"{module}, vllm {other}",
        f"{module}, vllm {version}",
        lineterm="",
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
        own = "what its tables have to say more" if checked.tables == checked.version else "its tables"
        yield f"\na draft of {own}:\n"
        yield from checked.draft
