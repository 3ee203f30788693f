"""What is known of one class that vLLM's parsers are made of: the form of the tables that a vLLM version has.

A parser is a small tree of objects: the parser, its reasoning and tool parser,
their engines, lexers and buffers. A :class:`Part` says what one class adds to
the state of its objects, and what of that state need not be carried. A
:class:`Table` is all parts of one version of vLLM, by the qualified names of
their classes. A class that is not in it is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from core.json import JsonValue
from core.parsing.checkpoint.kinds import Kind

Changes = dict[int, dict[str, Any]]
"""``id`` of an object -> attribute -> the value to save in the place of the real one."""

TextRule = Callable[[Changes, Any, Any, Any], None]
"""``(changes, stream state, parser, request)``: names what to save in the place of the text, and of the parser's notes
of it. What a rule cuts was sent to the client, and cannot be read differently by anything that may still come."""


class Special(NamedTuple):
    """A part of the state that is more than attributes of known kinds.

    ``save(object, request)`` and ``load(object, data, request)`` raise
    :class:`~core.parsing.checkpoint.errors.Misfit`; ``load`` changes the object.
    """

    save: Callable[[Any, Any], JsonValue]
    load: Callable[[Any, JsonValue, Any], None]


@dataclass(frozen=True, eq=False, repr=False)
class Reads:
    """What a reasoning or tool parser reads of the text and ids of its phase that came before.

    ``markers``: the attributes that hold the ids that it looks for, each one id
    or several (``a.b``: attribute ``b`` of its own ``a``); none: it looks at no
    ids; None: it may look at any. ``text``: whether it reads the text, or the
    rule that says what of it. ``through``: the attribute that holds the parser
    to which it hands everything; what that one reads counts.
    """

    markers: tuple[str, ...] | None = None
    text: bool | TextRule = True
    through: str = ""


READS_NOTHING = Reads(markers=(), text=False)

CarriedRule = Callable[[Changes, Any, Any, Callable[[Any], Reads | None]], None]
"""``(changes, object, request, reads of an object)``: adds what to save of the object, or of one it holds, in the place
of more."""


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """What one class adds to the state of its objects, and what of it need not be carried.

    ``state``: attributes and their kinds. ``late``: the same, for attributes
    that objects get only when they are first needed. ``children``: attributes
    that hold further objects with state, or None. ``specials``: see
    :class:`Special`; one of the same name in a base class is replaced.
    ``alone``: base classes add nothing to all these.

    ``refused``: why such an object cannot be carried, given the object; None
    when it can. ``kept``: attributes that a special saves, of this object or of
    the one that holds it. ``left_out``: attributes that change and are not
    saved, with the reason. ``filled``: those of both that hold containers of
    which a fresh parser needs its own; ``copied``: attributes that hold further
    objects of which it does.

    ``reads``: see :class:`Reads`; that of the nearest base class counts.
    ``fewer``: see :data:`CarriedRule`; base classes' count, too. ``prompt``: what a first step does about the
    prompt, given the processor and the ids. ``after``: what is left to do once
    the whole tree is restored, given its root.
    """

    state: Mapping[str, Kind] = field(default_factory=dict)
    late: Mapping[str, Kind] = field(default_factory=dict)
    children: tuple[str, ...] = ()
    specials: Mapping[str, Special] = field(default_factory=dict)
    alone: bool = False
    refused: Callable[[Any], str | None] | None = None
    kept: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    filled: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    reads: Reads | None = None
    fewer: CarriedRule | None = None
    prompt: Callable[[Any, list[int]], None] | None = None
    after: Callable[[Any], None] | None = None

    def without(self, *names: str) -> Part:
        """The part in a version of vLLM that does not have these attributes.

        Raises:
            KeyError: the part does not have one of them either.
        """
        lists = ("state", "late", "left_out", "kept", "filled")
        missing = [name for name in names if not any(name in getattr(self, each) for each in lists)]
        if missing:
            raise KeyError(missing[0])
        rest: dict[str, Any] = {}
        for each in lists:
            value = getattr(self, each)
            if isinstance(value, tuple):
                rest[each] = tuple(name for name in value if name not in names)
            else:
                rest[each] = {name: kind for name, kind in value.items() if name not in names}
        return replace(self, **rest)


Parts = Mapping[str, Part]
"""The qualified name of a class -> what is known of it."""


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Everything known of the parsers of one version of vLLM.

    ``choices``: a class that sets nothing but these attributes is a choice of
    parsers, made for one deployment, and adds no state.
    """

    parts: Parts
    choices: frozenset[str]

    def part_of(self, cls: type) -> Part | None:
        """What a class adds to the state of its objects; None when it is not known."""
        part = self.parts.get(f"{cls.__module__}.{cls.__qualname__}")
        if part is None and self.choices.issuperset(vars(cls)):
            return Part()
        return part

    def changed(self, parts: Parts, gone: Iterable[str] = ()) -> Table:
        """The table of a neighbouring version: these classes are new or differ, those are not there.

        Raises:
            KeyError: a class that is to be gone is not in this table.
        """
        kept = dict(self.parts)
        for name in gone:
            del kept[name]
        return Table({**kept, **parts}, self.choices)


def united(*families: Parts) -> Parts:
    """The parts of several parser families.

    Raises:
        ValueError: two families know the same class.
    """
    parts: dict[str, Part] = {}
    for family in families:
        twice = parts.keys() & family.keys()
        if twice:
            raise ValueError(f"known twice: {', '.join(sorted(twice))}")
        parts.update(family)
    return parts
