"""What the slice is made of: every module that is not simply copied is named here, with what happens to it and why.

Replacements (see cut, members, defer, lazy, and the files under hand/), definitions given from elsewhere, redirected
third-party packages, and what is left out. Everything else that the roots reach is copied unmodified. A version of vLLM
is one `Specification`: the newest in full, each older one as what differs from its neighbour (`infra/slice/versions`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cut:
    """A SLICE module keeps the names that other modules import from it, and what those reference."""

    also: tuple[str, ...] = ()
    """Names to keep that no import shows."""
    fields: bool = True
    """Follow annotations in class bodies: pydantic, TypedDict and dataclasses read them when the class is made."""
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Classes of which only these members are kept, with those that they use, and no bases; see members."""


@dataclass(frozen=True)
class Borrow:
    """A module with the text that another version of vLLM has."""

    version: str
    module: str = ""
    """Its name there, when that differs."""


@dataclass(frozen=True)
class Specification:
    """A complete description of a slice."""

    version: str
    """vLLM's."""
    revision: int
    """Counts what was changed in the slice of one version: goes up with every change of the built wheel."""
    vendored: Mapping[str, str]
    """The packages of which modules are copied, with the version of each that is read."""
    roots: tuple[str, ...]
    """`module` or `module:name,name`: what must be importable."""
    cut: Mapping[str, Cut]
    slow: frozenset[str]
    """What a chat does not need and costs time to import: `module`, with everything below it, or `module:name`. What
    the slice's modules import of it is deferred to the first use."""
    prompt: Mapping[str, tuple[str, ...]]
    """Names, by module, that are slow and used while the module is imported: loaded then."""
    opaque: Mapping[str, tuple[str, ...]]
    """Field annotations replaced by `object`, by module, because the schema is given beside them."""
    memoize: Mapping[str, tuple[str, ...]]
    """Functions that are called once for the same argument objects, by module."""
    lazy: frozenset[str]
    redirects: Mapping[str, str]
    denied: frozenset[str]
    absent: frozenset[str]
    """Imports inside functions that lead nowhere, `module` or `module:name`: known, and never reached here."""
    data: tuple[str, ...]
    """Glob patterns of data files that are copied."""
    third_party: frozenset[str]
    """Packages that a module of the slice may import when it is imported itself."""
    third_party_late: frozenset[str]
    """Packages that are only ever imported inside functions."""
    wanting: Mapping[str, str] = field(default_factory=dict)
    """Modules that refuse to be imported without a package that the slice does not bring, with that package."""
    compiled: frozenset[str] = frozenset()
    """Modules of machine code that are copied, with the parsers that run in them; see `infra/slice/compiled.py`."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Where this version has a module that the newest one has under another name: newest name to this version's."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Packages that this version has elsewhere, whole: the name that tables, core and the slice keep, to its own."""
    borrow: Mapping[str, Borrow] = field(default_factory=dict)
    """Modules that this version does not have, or not in the form that core uses, from the version that has them."""
    given: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Definitions, by module and name, that come from another module in place of the module's own, if it has one."""

    @property
    def slice_version(self) -> str:
        """The built wheel's version."""
        return f"{self.version}+slice.{self.revision}"

    def but(
        self,
        *,
        add: Mapping[str, Any] | None = None,
        drop: Mapping[str, Collection[str]] | None = None,
        **values: Any,
    ) -> Specification:
        """This specification with differences: the delta of a version.

        Parameters
        ----------
        add
            Entries, by the table's name, that are added or put in the place of one with the same key.
        drop
            Keys, by the table's name, that are left out. One that the table does not have is an error: a delta must
            not outlive its reason. A root is dropped by its whole text, or by `module:name` one name of it.
        values
            Fields with another value, `version` and `revision` first of all.
        """
        changed: dict[str, Any] = {}
        for name, keys in (drop or {}).items():
            changed[name] = _without(name, getattr(self, name), keys)
        for name, entries in (add or {}).items():
            table = changed.get(name, getattr(self, name))
            if isinstance(table, Mapping):
                changed[name] = {**table, **entries}
            elif isinstance(table, frozenset):
                changed[name] = table | frozenset(entries)
            else:
                changed[name] = (*table, *entries)
        return dataclasses.replace(self, **changed, **values)


def _without(name: str, table: Any, keys: Collection[str]) -> Any:
    if name == "roots":
        return _roots_without(table, keys)
    for key in keys:
        if key not in table:
            raise KeyError(f"{name} has no {key!r} to drop")
    if isinstance(table, Mapping):
        return {key: value for key, value in table.items() if key not in keys}
    kept = (key for key in table if key not in keys)
    return frozenset(kept) if isinstance(table, frozenset) else tuple(kept)


def _roots_without(roots: tuple[str, ...], keys: Collection[str]) -> tuple[str, ...]:
    left = set(keys)
    kept: list[str] = []
    for root in roots:
        module, _, names = root.partition(":")
        if root in left:
            left.remove(root)
            continue
        gone = {name for name in names.split(",") if f"{module}:{name}" in left}
        left -= {f"{module}:{name}" for name in gone}
        rest = [name for name in names.split(",") if name not in gone]
        kept.append(f"{module}:{','.join(rest)}" if names and rest else module if not names or gone else root)
    if left:
        raise KeyError(f"roots has no {sorted(left)} to drop")
    return tuple(kept)
