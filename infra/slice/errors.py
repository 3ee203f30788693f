"""Everything that can stop a build of the slice, each naming the module and the definition concerned.

SliceError
├── SourceError          an input wheel or distribution is not usable
├── Stopped              what follows, all of it at once
├── MissingModule        a module that is needed is gone upstream
├── MissingDefinition    a definition that is needed is gone upstream, or not held by the slice
├── DeniedImport         a module that is left out is imported when another is
├── UnsupportedShape     a module no longer has the shape that a transformation needs
├── CompiledCode         a module is machine code, and the specification does not say that it is to be copied
├── SlowImport           a name of a slow module is used while a module is imported
├── OutsidePackage       a package is imported from outside that the specification does not name
├── OriginalChanged      the upstream file that a hand-written module replaces is not the one that was looked at
└── UnboundName          generated code would use a name that nothing binds
"""

from __future__ import annotations

from collections.abc import Sequence


class SliceError(Exception):
    """The slice cannot be built. `module` and `name` say of what, where one thing is concerned."""

    def __init__(self, message: str, module: str = "", name: str = "") -> None:
        self.module = module
        self.name = name
        self.needed_by = ""
        self.needed_by_more: list[str] = []
        """Who else needs it, in the words of `needed_by`."""
        super().__init__(message)

    def __str__(self) -> str:
        more = len(self.needed_by_more)
        return super().__str__() + (f" (and by {more} more)" if more else "")


class SourceError(SliceError):
    """An input is missing, unreadable or not what the specification expects."""


class Stopped(SliceError):
    """All that is wrong, in `stops`."""

    def __init__(self, stops: Sequence[SliceError]) -> None:
        self.stops = tuple(stops)
        super().__init__("\n".join(str(stop) for stop in stops))


class MissingModule(SliceError):
    """A module that the slice needs does not exist upstream."""

    def __init__(self, module: str, needed_by: str) -> None:
        super().__init__(f"module {module!r}, needed by {needed_by}, does not exist upstream", module)
        self.needed_by = needed_by


class MissingDefinition(SliceError):
    """A module does not define a name that the slice needs from it."""

    def __init__(self, module: str, name: str, needed_by: str) -> None:
        super().__init__(f"{module!r} does not define {name!r}, needed by {needed_by}", module, name)
        self.needed_by = needed_by


class DeniedImport(SliceError):
    """A module that is left out is imported while a module of the slice is."""

    def __init__(self, module: str, needed_by: str) -> None:
        super().__init__(f"{needed_by} imports {module!r}, which is denied, at import time", module)
        self.needed_by = needed_by


class UnsupportedShape(SliceError):
    """A transformation met code that it cannot handle faithfully."""

    def __init__(self, module: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{module!r}: {reason}", module)


class CompiledCode(SliceError):
    """A module that is reached is machine code."""

    def __init__(self, module: str, needed_by: str) -> None:
        super().__init__(f"{needed_by} imports {module!r}, which is machine code that nothing says to copy", module)
        self.needed_by = needed_by


class SlowImport(SliceError):
    """A name of a slow module is used while a module is imported, so that it cannot wait."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(f"{module!r} uses {name!r}, of a slow module, at import time", module, name)


class OutsidePackage(SliceError):
    """A package from outside is imported that the specification does not name."""

    def __init__(self, module: str, package: str, when: str) -> None:
        super().__init__(f"{module} imports {package!r} {when}, which the specification does not name", module, package)


class OriginalChanged(SliceError):
    """A hand-written module was not looked at beside the file that it replaces."""

    def __init__(self, module: str, path: str, origin: str, digest: str) -> None:
        self.digest = digest
        super().__init__(
            f"{path} was not written against {module} of {origin}: look at what changed there, then add the line "
            f"'# replaces {origin}: sha256:{digest}'",
            module,
        )


class UnboundName(SliceError):
    """Generated code refers to a global that the module does not bind."""

    def __init__(self, module: str, names: list[str]) -> None:
        self.names = names
        super().__init__(f"{module!r} would use names that nothing binds: {', '.join(names)}", module, names[0])
