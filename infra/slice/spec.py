"""What the slice is made of: every module that is not simply copied is named here, with what happens to it and why.

Four kinds of replacement (see cut, defer, lazy and the files under hand/), redirected third-party packages, and what is
left out. Everything else that the roots reach is copied unmodified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cut:
    """The top-level names that a SLICE module keeps."""

    names: tuple[str, ...]
    fields: bool = False
    """Follow annotations in class bodies."""


@dataclass(frozen=True)
class Defer:
    """The top-level names of a module that are loaded on first use."""

    names: tuple[str, ...]
    opaque: tuple[str, ...] = ()
    """Field annotations replaced by `object`, because the schema is given beside them."""


@dataclass(frozen=True)
class Specification:
    """A complete description of a slice."""

    roots: tuple[str, ...]
    """`module` or `module:name,name`: what must be importable."""
    hand: frozenset[str]
    hand_folder: Path
    cut: Mapping[str, Cut]
    defer: Mapping[str, Defer]
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

    def names(self, module: str) -> bool:
        """Whether the specification replaces this module."""
        return module in self.hand or module in self.cut or module in self.lazy
