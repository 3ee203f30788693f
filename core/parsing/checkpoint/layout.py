"""The layout of a parser's state: how it is walked, saved and restored, class by class.

A parser is a small tree of objects: the parser, its reasoning and tool parser,
their engines, lexers and buffers. The tree is built by vLLM for the request at
hand and is never taken from a checkpoint. A :class:`Layout` lists, for one class of
objects in it, the attributes that make up the state; everything else on such
an object follows from the request and is left alone. So a checkpoint can only
set attributes that are listed, to values of the listed kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from core.json import JsonValue
from core.parsing.checkpoint.errors import CheckpointRefused, InvalidCheckpoint, Misfit
from core.parsing.checkpoint.kinds import Kind

Changes = dict[int, dict[str, Any]]
"""``id`` of an object -> attribute -> the value to save in the place of the real one (``carried``)."""


class Special(NamedTuple):
    """A part of the state that is more than attributes of known kinds.

    ``save(object, request)`` and ``load(object, data, request)`` raise
    :class:`Misfit`; ``load`` changes the object.
    """

    save: Callable[[Any, Any], JsonValue]
    load: Callable[[Any, JsonValue, Any], None]


@dataclass(frozen=True)
class Part:
    """What one class adds to the state of its objects.

    ``state``: attributes and their kinds. ``late``: the same, for attributes
    that objects get only when they are first needed. ``children``: attributes
    that hold further objects with state, or None. ``specials``: see
    :class:`Special`. ``refused``: why such an object cannot be carried, given
    the object; None when it can. ``alone``: base classes add nothing.
    """

    state: Mapping[str, Kind] = field(default_factory=dict)
    late: Mapping[str, Kind] = field(default_factory=dict)
    children: tuple[str, ...] = ()
    specials: tuple[Special, ...] = ()
    refused: Callable[[Any], str | None] | None = None
    alone: bool = False


class Layout(NamedTuple):
    """The state of one class of objects, compiled."""

    names: tuple[str, ...]
    positions: Mapping[str, int]
    kinds: tuple[Kind, ...]
    read: Callable[[Any], tuple[Any, ...]]
    late: tuple[tuple[str, Kind], ...]
    children: tuple[str, ...]
    specials: tuple[Special, ...]
    refusals: tuple[Callable[[Any], str | None], ...]


@lru_cache(maxsize=512)
def layout_of(cls: type) -> Layout:
    """The layout of a class's objects.

    Raises:
        CheckpointRefused: the class, or one that it is based on, is not known.
    """
    from core.parsing.checkpoint.catalog import part_of

    state: dict[str, Kind] = {}
    late: dict[str, Kind] = {}
    children: list[str] = []
    specials: list[Special] = []
    refusals: list[Callable[[Any], str | None]] = []
    parts: list[Part] = []
    for base in cls.__mro__[:-1]:
        part = part_of(base)
        if part is None:
            raise CheckpointRefused(f"{base.__module__}.{base.__qualname__} is not a known part of a parser")
        parts.append(part)
        if part.alone:
            break
    for part in reversed(parts):
        state.update(part.state)
        late.update(part.late)
        children += [name for name in part.children if name not in children]
        specials += part.specials
        refusals += [part.refused] if part.refused else []
    names = tuple(state)
    return Layout(
        names,
        {name: position for position, name in enumerate(names)},
        tuple(state.values()),
        _reader(names),
        tuple(late.items()),
        tuple(children),
        tuple(specials),
        tuple(refusals),
    )


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    # For a single name attrgetter gives the bare value.
    return get if len(names) > 1 else lambda part: (get(part),)


def walk(root: Any) -> Iterator[tuple[Any, Layout]]:
    """The objects of a parser's tree with their layouts, in an order that depends on nothing but the tree."""
    stack = [root]
    while stack:
        part = stack.pop()
        layout = layout_of(type(part))  # type: ignore[arg-type]  # classes are hashable
        yield part, layout
        for name in reversed(layout.children):
            child = getattr(part, name)
            if child is not None:
                stack.append(child)


def save(root: Any, request: Any, changes: Changes) -> list[JsonValue]:
    """The state of a tree as plain data.

    Raises:
        CheckpointRefused: something in it is not of the known kind.
    """
    saved: list[JsonValue] = []
    add = saved.append
    for part, layout in walk(root):
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


def load(root: Any, request: Any, saved: list[JsonValue]) -> None:
    """Set a fresh tree to a saved state.

    Raises:
        InvalidCheckpoint: the data does not fit the tree, which is left half changed.
    """
    position = 0
    size = len(saved)
    for part, layout in walk(root):
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
