"""Imports that a module makes on first use.

The build rewrites uses of a deferred name `X` to `_deferred.X` and `isinstance(v, X)` to `_deferred.holds(v, ("X",))`.
Type aliases made of deferred names are deferred with them: `X = ...` becomes `_deferred.define("X", lambda: ...)`.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["Deferred"]


class Deferred:
    """The deferred names of one module, as attributes that load when they are first read.

    `entries` maps a name to "module:attribute", or to "module" for the module itself.
    """

    def __init__(self, module_name: str, /, **entries: str) -> None:
        self._module_name = module_name
        self._entries = entries
        self._makers: dict[str, Callable[[], Any]] = {}

    def define(self, name: str, make: Callable[[], Any]) -> None:
        """Set how a deferred alias is made."""
        self._makers[name] = make

    def __getattr__(self, name: str) -> Any:
        # Called for the module's attributes too, and then not only for the first read.
        if name in self.__dict__:
            return self.__dict__[name]
        value: Any
        if name in self._makers:
            value = self._makers[name]()
        elif name in self._entries:
            module, _, attribute = self._entries[name].partition(":")
            value = import_module(module)
            if attribute:
                value = getattr(value, attribute)
        else:
            raise AttributeError(f"module {self._module_name!r} has no attribute {name!r}")
        setattr(self, name, value)
        return value

    def holds(self, value: object, classes: tuple[Any, ...]) -> bool:
        """`isinstance`, with deferred classes given by name.

        A module that nobody has loaded has no instances, so it is not loaded to find that out.
        """
        for each in classes:
            if isinstance(each, str):
                entry = self._entries.get(each)
                if entry is not None and entry.partition(":")[0] not in sys.modules:
                    continue
                each = getattr(self, each)
            if isinstance(value, each):
                return True
        return False
