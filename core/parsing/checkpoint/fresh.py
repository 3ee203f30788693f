"""Fresh parsers without building them: copies of one that has not parsed anything.

Building a parser compiles patterns and looks up tokens, the same ones every
time; for some families that takes longer than everything else a chunk needs.
A :class:`Prototype` does it once. What a copy shares with it never changes.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

from core.parsing.checkpoint.errors import CheckpointRefused
from core.parsing.checkpoint.layout import Layout, Layouts
from core.parsing.checkpoint.state import check_supported


class Prototype:
    """A parser that is only ever copied. It must not be used, and its tools must not change.

    Raises:
        CheckpointRefused: the parser's state is not known, so that it cannot be copied.
    """

    def __init__(self, parser: Any, layouts: Layouts) -> None:
        check_supported(parser, layouts)
        tree = list(layouts.walk(parser))
        parts = [part for part, _ in tree]
        parts += [getattr(part, name) for part, layout in tree for name in layout.copied]
        known = {id(part) for part in parts}
        self._parts = [_Part(part, layouts.of(type(part)), known) for part in parts]

    def fresh(self) -> Any:
        """A parser as good as newly built."""
        copies = {part.key: object.__new__(part.cls) for part in self._parts}
        for part in self._parts:
            part.fill(copies[part.key], copies)
        return copies[self._parts[0].key]


class _Part:
    """How one object of the tree is copied."""

    def __init__(self, part: Any, layout: Layout, known: set[int]) -> None:
        self.key = id(part)
        self.cls = type(part)
        self._shared = dict(vars(part))
        self._links: list[tuple[str, int]] = []
        self._methods: list[tuple[str, Any, int]] = []
        self._containers: list[tuple[str, Any]] = []
        changing = layout.saved | layout.filled
        for name, value in vars(part).items():
            if id(value) in known:
                self._links.append((name, id(value)))
            elif isinstance(value, MethodType) and id(value.__self__) in known:
                self._methods.append((name, value.__func__, id(value.__self__)))
            elif name in changing and isinstance(value, list | dict | set):
                if any(isinstance(item, list | dict | set) and item for item in _items(value)):
                    raise CheckpointRefused(f"{self.cls.__qualname__}.{name} is not empty to begin with")
                self._containers.append((name, value))

    def fill(self, copy: Any, copies: dict[int, Any]) -> None:
        attributes = vars(copy)
        attributes.update(self._shared)
        for name, key in self._links:
            attributes[name] = copies[key]
        for name, function, key in self._methods:
            attributes[name] = MethodType(function, copies[key])
        for name, value in self._containers:
            attributes[name] = _empty_copy(value)


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _empty_copy(value: Any) -> Any:
    """A copy of a container that holds plain values, and at most empty containers."""
    if isinstance(value, dict):
        return {key: item.copy() if isinstance(item, list | dict | set) else item for key, item in value.items()}
    if isinstance(value, list):
        return [item.copy() if isinstance(item, list | dict | set) else item for item in value]
    return value.copy()
