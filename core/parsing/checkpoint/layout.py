"""The layout of a parser's state: how it is walked, saved and restored, class by class.

The tree of a parser's objects is built by vLLM for the request at hand and is
never taken from a checkpoint. A :class:`Layout` lists, for one class of objects
in it, the attributes that make up the state; everything else on such an object
follows from the request and is left alone. So a checkpoint can only set
attributes that are listed, to values of the listed kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from core.json import JsonValue
from core.parsing.checkpoint.errors import CheckpointRefused, InvalidCheckpoint, Misfit
from core.parsing.checkpoint.kinds import Kind
from core.parsing.checkpoint.part import CarriedRule, Changes, Part, Reads, Special, Table


class Layout(NamedTuple):
    """What is known of one class of objects, compiled from its own part and those of its base classes."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    read: Callable[[Any], tuple[Any, ...]]
    late: tuple[tuple[str, Kind], ...]
    children: tuple[str, ...]
    specials: tuple[Special, ...]
    refusals: tuple[Callable[[Any], str | None], ...]
    kept: frozenset[str]
    left_out: frozenset[str]
    filled: frozenset[str]
    copied: tuple[str, ...]
    reads: Reads | None
    fewer: tuple[CarriedRule, ...]
    prompt: Callable[[Any, list[int]], None] | None
    after: Callable[[Any], None] | None

    @property
    def saved(self) -> set[str]:
        """The attributes that are saved as they are."""
        return {*self.names, *(name for name, _ in self.late)}


Tree = list[tuple[Any, Layout]]
"""The objects of a parser with their layouts."""


class Layouts:
    """The layouts of all classes that a table knows, each compiled when it is first met."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._compiled: dict[type, Layout] = {}

    def of(self, cls: type) -> Layout:
        """The layout of a class's objects.

        Raises:
            CheckpointRefused: the class, or one that it is based on, is not known.
        """
        layout = self._compiled.get(cls)
        if layout is None:
            layout = self._compiled[cls] = _compile(cls, self._table)
        return layout

    def reads_of(self, part: Any) -> Reads | None:
        """What a parser reads of what came before; None when nothing is known, so that it may be anything."""
        return self.of(type(part)).reads

    def walk(self, root: Any) -> Iterator[tuple[Any, Layout]]:
        """The objects of a parser's tree with their layouts, in an order that depends on nothing but the tree.

        Raises:
            CheckpointRefused: the class of one is not known.
        """
        stack = [root]
        while stack:
            part = stack.pop()
            layout = self.of(type(part))
            yield part, layout
            for name in reversed(layout.children):
                child = getattr(part, name)
                if child is not None:
                    stack.append(child)


def _compile(cls: type, table: Table) -> Layout:
    parts: list[Part] = []
    for base in cls.__mro__[:-1]:
        part = table.part_of(base)
        if part is None:
            raise CheckpointRefused(f"{base.__module__}.{base.__qualname__} is not a known part of a parser")
        parts.append(part)
        if part.alone:
            break
    state: dict[str, Kind] = {}
    late: dict[str, Kind] = {}
    specials: dict[str, Special] = {}
    for part in reversed(parts):
        state.update(part.state)
        late.update(part.late)
        specials.update(part.specials)
    base_first = parts[::-1]
    names = tuple(state)
    return Layout(
        names,
        tuple(state.values()),
        _reader(names),
        tuple(late.items()),
        tuple(dict.fromkeys(name for part in base_first for name in part.children)),
        tuple(specials.values()),
        tuple(part.refused for part in base_first if part.refused is not None),
        frozenset(name for part in parts for name in part.kept),
        frozenset(name for part in parts for name in part.left_out),
        frozenset(name for part in parts for name in part.filled),
        tuple(name for part in base_first for name in part.copied),
        next((part.reads for part in parts if part.reads is not None), None),
        tuple(part.fewer for part in base_first if part.fewer is not None),
        next((part.prompt for part in parts if part.prompt is not None), None),
        next((part.after for part in parts if part.after is not None), None),
    )


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    # For a single name attrgetter gives the bare value.
    return get if len(names) > 1 else lambda part: (get(part),)


def changes_of(tree: Tree, request: Any, layouts: Layouts) -> Changes:
    """The values to save in the place of real ones, where less than all of the state leads to the same output."""
    changes: Changes = {}
    for part, layout in tree:
        for fewer in layout.fewer:
            fewer(changes, part, request, layouts.reads_of)
    return changes


def save(tree: Tree, request: Any, changes: Mapping[int, Mapping[str, Any]]) -> list[JsonValue]:
    """The state of a tree as plain data.

    Raises:
        CheckpointRefused: something in it is not of the known kind.
    """
    saved: list[JsonValue] = []
    add = saved.append
    for part, layout in tree:
        values: Any = layout.read(part)
        changed = changes.get(id(part))
        if changed:
            values = [changed.get(name, value) for name, value in zip(layout.names, values, strict=True)]
        try:
            for kind, value in zip(layout.kinds, values, strict=True):
                add(kind.save(value))
            for name, kind in layout.late:
                value = getattr(part, name, None)
                add(None if value is None else kind.save(value))
            for special in layout.specials:
                add(special.save(part, request))
        except Misfit as exc:
            raise CheckpointRefused(f"{type(part).__qualname__}: {exc}") from exc
    return saved


def apply(tree: Tree, changes: Changes) -> None:
    """Set a live tree to what was saved in the place of real values, as loading it into a fresh one would."""
    for part, layout in tree:
        changed = changes.get(id(part))
        if changed:
            for name, kind in zip(layout.names, layout.kinds, strict=True):
                if name in changed:
                    setattr(part, name, kind.load(kind.save(changed[name])))
    root, layout = tree[0]
    if layout.after is not None:
        layout.after(root)


def load(layouts: Layouts, root: Any, request: Any, saved: list[JsonValue]) -> None:
    """Set a fresh tree to a saved state.

    Raises:
        InvalidCheckpoint: the data does not fit the tree, which is left half changed.
    """
    position = 0
    size = len(saved)
    for part, layout in layouts.walk(root):
        end = position + len(layout.names) + len(layout.late) + len(layout.specials)
        if end > size:
            raise InvalidCheckpoint("it is too short for this parser")
        name = ""
        try:
            for name, kind in zip(layout.names, layout.kinds, strict=True):
                setattr(part, name, kind.load(saved[position]))
                position += 1
            for name, kind in layout.late:
                if saved[position] is not None:
                    setattr(part, name, kind.load(saved[position]))
                position += 1
            for special in layout.specials:
                name = "parts"
                special.load(part, saved[position], request)
                position += 1
        except Misfit as exc:
            raise InvalidCheckpoint(f"{type(part).__qualname__}.{name} {exc}") from exc
    if position != size:
        raise InvalidCheckpoint("it is too long for this parser")
    after = layouts.of(type(root)).after
    if after is not None:
        after(root)
