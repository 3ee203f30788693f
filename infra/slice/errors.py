"""Everything that can stop a build of the slice, each naming the module and the definition concerned.

SliceError
├── SourceError          an input wheel or distribution is not usable
├── MissingModule        a module that is needed is gone upstream
├── MissingDefinition    a definition that is needed is gone upstream, or not held by the slice
├── UnsupportedShape     a module no longer has the shape that a transformation needs
└── UnboundName          generated code would use a name that nothing binds
"""

from __future__ import annotations


class SliceError(Exception):
    """The slice cannot be built."""


class SourceError(SliceError):
    """An input is missing, unreadable or not what the specification expects."""


class MissingModule(SliceError):
    """A module that the slice needs does not exist upstream."""

    def __init__(self, module: str, needed_by: str) -> None:
        self.module = module
        self.needed_by = needed_by
        super().__init__(f"module {module!r}, needed by {needed_by}, does not exist upstream")


class MissingDefinition(SliceError):
    """A module does not define a name that the slice needs from it."""

    def __init__(self, module: str, name: str, needed_by: str) -> None:
        self.module = module
        self.name = name
        self.needed_by = needed_by
        super().__init__(f"{module!r} does not define {name!r}, needed by {needed_by}")


class UnsupportedShape(SliceError):
    """A transformation met code that it cannot handle faithfully."""

    def __init__(self, module: str, reason: str) -> None:
        self.module = module
        self.reason = reason
        super().__init__(f"{module!r}: {reason}")


class UnboundName(SliceError):
    """Generated code refers to a global that the module does not bind."""

    def __init__(self, module: str, names: list[str]) -> None:
        self.module = module
        self.names = names
        super().__init__(f"{module!r} would use names that nothing binds: {', '.join(names)}")
