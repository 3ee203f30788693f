"""The tool calls of an engine-based parser: one slot a call, and the closure that extends an open argument.

A slot keeps a call's raw arguments, and what was streamed of them, as parts and
joined; one text of each is carried, and only where the engine will read it
again. Calls before the current one are never read again by most engines.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from core.json import JsonValue
from core.parsing.checkpoint.errors import Misfit
from core.parsing.checkpoint.kinds import BOOL, MAX_CALLS, TEXT, TEXT_SET, Kind, optional
from core.parsing.checkpoint.part import Part, Parts, Special
from core.upstream.parser_state import new_tool_call_slot

_KEYS = optional(TEXT_SET)


class Extender(NamedTuple):
    """How a parser module's argument extender is made again, and its variables.

    ``module`` is that of the factory in the engine's configuration. ``opening``
    is the least text for which the factory returns an extender; its variables
    are then set.
    """

    module: str
    opening: str
    variables: Mapping[str, Kind]


def slots(*, every_call: bool = False, raw_arguments: bool = False, extender: Extender | None = None) -> Special:
    """The tool calls of an engine.

    ``every_call``: it reads the arguments of the calls before the current one.
    ``raw_arguments``: it reads them though it has no argument converter.
    ``extender``: the one that its open arguments may have.
    """

    def save(engine: Any, _request: Any) -> JsonValue:
        found = engine._tool_slots
        if type(found) is not list or len(found) > MAX_CALLS:
            raise Misfit("holds more tool calls than can be carried")
        current = engine._engine.tool_index
        return [
            _save_slot(engine, slot, raw_arguments, extender) if every_call or index >= current else 0
            for index, slot in enumerate(found)
        ]

    def load(engine: Any, data: JsonValue, _request: Any) -> None:
        if type(data) is not list or len(data) > MAX_CALLS:
            raise Misfit("must be a list of tool calls")
        if data:
            engine._tool_slots = [_load_slot(engine, new_tool_call_slot(), item, extender) for item in data]

    return Special(save, load)


def _factory(engine: Any, extender: Extender | None) -> tuple[Callable[[str], Any], Extender]:
    factory = engine._arg_value_extender
    plain = factory.func if isinstance(factory, functools.partial) else factory
    if extender is None or getattr(plain, "__module__", "") != extender.module:
        raise Misfit("has an argument extender of an unknown kind")
    return factory, extender


def _cells(function: Any, extender: Extender) -> dict[str, Any]:
    names = function.__code__.co_freevars
    cells = dict(zip(names, function.__closure__ or (), strict=True))
    return {name: cells[name] for name in extender.variables}


def _save_extender(engine: Any, function: Any, expected: Extender | None) -> JsonValue:
    if function is None:
        return None
    factory, extender = _factory(engine, expected)
    known = factory(extender.opening)
    if known is None or getattr(function, "__code__", None) is not known.__code__:
        raise Misfit("has an argument extender of an unknown kind")
    cells = _cells(function, extender)
    return [kind.save(cells[name].cell_contents) for name, kind in extender.variables.items()]


def _load_extender(engine: Any, data: JsonValue, expected: Extender | None) -> Any:
    if data is None:
        return None
    factory, extender = _factory(engine, expected)
    if type(data) is not list or len(data) != len(extender.variables):
        raise Misfit("must be the variables of an argument extender")
    function = factory(extender.opening)
    if function is None:
        raise Misfit("has no argument extender")
    cells = _cells(function, extender)
    for (name, kind), value in zip(extender.variables.items(), data, strict=True):
        cells[name].cell_contents = kind.load(value)
    return function


def _save_slot(engine: Any, slot: Any, reads_raw: bool, extender: Extender | None) -> JsonValue:
    announced = slot.name_sent
    converts = engine._arg_converter is not None
    return [
        # The id is read only until it was sent.
        "" if announced else TEXT.save(slot.id),
        TEXT.save(slot.name),
        TEXT.save(slot.args) if converts or reads_raw or not announced else "",
        BOOL.save(announced),
        _KEYS.save(slot.string_keys),
        TEXT.save(slot.streamed_json) if converts else "",
        *_save_open_value(engine, slot, extender),
    ]


def _save_open_value(engine: Any, slot: Any, extender: Extender | None) -> list[JsonValue]:
    # Versions before 0.33 convert all arguments again for every chunk, and their slots have none of it.
    if not hasattr(slot, "extend_open_value"):
        return [None, BOOL.save(False)]
    return [_save_extender(engine, slot.extend_open_value, extender), BOOL.save(slot.open_value_streams)]


def _load_open_value(
    engine: Any, slot: Any, extender: JsonValue, streams: JsonValue, expected: Extender | None
) -> None:
    if hasattr(slot, "extend_open_value"):
        slot.extend_open_value = _load_extender(engine, extender, expected)
        slot.open_value_streams = BOOL.load(streams)
    elif extender is not None or BOOL.load(streams):
        raise Misfit("has an argument extender, which this version knows nothing of")


def _load_slot(engine: Any, slot: Any, data: JsonValue, expected: Extender | None) -> Any:
    if type(data) is int and data == 0:
        return slot
    if type(data) is not list or len(data) != 8:
        raise Misfit("must be a tool call")
    identifier, name, arguments, announced, keys, streamed, extender, streams = data
    slot.id = TEXT.load(identifier)
    slot.name = TEXT.load(name)
    if TEXT.load(arguments):
        slot.append_args(arguments)
    slot.name_sent = BOOL.load(announced)
    slot.string_keys = _KEYS.load(keys)
    if TEXT.load(streamed):
        slot.streamed_json = streamed
    _load_open_value(engine, slot, extender, streams, expected)
    return slot


SLOT_PARTS: Parts = {
    # Never walked: the slots special of the engine keeps it.
    "vllm.parser.engine.parser_engine.ToolCallSlot": Part(
        kept=(
            "_args_joined",
            "_args_parts",
            "_streamed_joined",
            "_streamed_parts",
            "extend_open_value",
            "id",
            "name",
            "name_sent",
            "open_value_streams",
            "streamed_json",
            "string_keys",
        )
    ),
}
