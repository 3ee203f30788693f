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
from core.parsing.checkpoint.kinds import BOOL, COUNT, MAX_CALLS, TEXT, TEXT_SET, Kind, optional
from core.parsing.checkpoint.layout import Special

# These engines look through the arguments of all calls (``_convert_args``).
_READ_EVERY_CALL = frozenset({"DeepSeekV32Parser", "DeepSeekV4Parser", "DeepSeekV41Parser", "MinimaxM3Parser"})
# These have no argument converter and read the raw arguments all the same.
_READ_RAW_ARGUMENTS = frozenset({"Plamo3Parser"})
_KEYS = optional(TEXT_SET)


class _Extender(NamedTuple):
    """How a parser module's argument extender is made again, and its variables.

    ``opening`` is the least text for which the module's factory returns an
    extender; its variables are then set.
    """

    opening: str
    variables: Mapping[str, Kind]


# By the module of the factory in the engine's configuration.
_EXTENDERS: Mapping[str, _Extender] = {
    "vllm.parser.qwen3": _Extender("<parameter=a>", {"window": TEXT, "started": BOOL, "held": TEXT}),
    "vllm.parser.glm47_moe": _Extender("<arg_key>a</arg_key><arg_value>", {"tail": TEXT}),
    "vllm.parser.minimax_m2": _Extender('<parameter name="a">', {"window": TEXT}),
    "vllm.parser.gemma4": _Extender('a:<|"|>', {"held": TEXT, "opens": COUNT, "closes": COUNT}),
}


def _factory(engine: Any) -> tuple[Callable[[str], Any], _Extender]:
    factory = engine._arg_value_extender
    plain = factory.func if isinstance(factory, functools.partial) else factory
    extender = _EXTENDERS.get(getattr(plain, "__module__", ""))
    if extender is None:
        raise Misfit("has an argument extender of an unknown kind")
    return factory, extender


def _cells(function: Any, extender: _Extender) -> dict[str, Any]:
    names = function.__code__.co_freevars
    cells = dict(zip(names, function.__closure__ or (), strict=True))
    return {name: cells[name] for name in extender.variables}


def _save_extender(engine: Any, function: Any) -> JsonValue:
    if function is None:
        return None
    factory, extender = _factory(engine)
    known = factory(extender.opening)
    if known is None or getattr(function, "__code__", None) is not known.__code__:
        raise Misfit("has an argument extender of an unknown kind")
    cells = _cells(function, extender)
    return [kind.save(cells[name].cell_contents) for name, kind in extender.variables.items()]


def _load_extender(engine: Any, data: JsonValue) -> Any:
    if data is None:
        return None
    factory, extender = _factory(engine)
    if type(data) is not list or len(data) != len(extender.variables):
        raise Misfit("must be the variables of an argument extender")
    function = factory(extender.opening)
    if function is None:
        raise Misfit("has no argument extender")
    cells = _cells(function, extender)
    for (name, kind), value in zip(extender.variables.items(), data, strict=True):
        cells[name].cell_contents = kind.load(value)
    return function


def _save_slots(engine: Any, _request: Any) -> JsonValue:
    slots = engine._tool_slots
    if type(slots) is not list or len(slots) > MAX_CALLS:
        raise Misfit("holds more tool calls than can be carried")
    name = type(engine).__name__
    every = name in _READ_EVERY_CALL
    current = engine._engine.tool_index
    return [
        _save_slot(engine, slot, name in _READ_RAW_ARGUMENTS) if every or index >= current else 0
        for index, slot in enumerate(slots)
    ]


def _save_slot(engine: Any, slot: Any, reads_raw: bool) -> JsonValue:
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
        _save_extender(engine, slot.extend_open_value),
        BOOL.save(slot.open_value_streams),
    ]


def _load_slots(engine: Any, data: JsonValue, _request: Any) -> None:
    if type(data) is not list or len(data) > MAX_CALLS:
        raise Misfit("must be a list of tool calls")
    if not data:
        return
    from vllm.parser.engine.parser_engine import ToolCallSlot

    engine._tool_slots = [_load_slot(engine, ToolCallSlot(), item) for item in data]


def _load_slot(engine: Any, slot: Any, data: JsonValue) -> Any:
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
    slot.extend_open_value = _load_extender(engine, extender)
    slot.open_value_streams = BOOL.load(streams)
    return slot


SLOTS = Special(_save_slots, _load_slots)


def _save_terminals(scanner: Any, _request: Any) -> JsonValue:
    return [[TEXT.save(t.terminal), COUNT.save(t.token_id), TEXT.save(t.text)] for t in scanner._deferred_terminals]


def _load_terminals(scanner: Any, data: JsonValue, _request: Any) -> None:
    if type(data) is not list:
        raise Misfit("must be a list of terminals")
    if not data:
        return
    from vllm.parser.engine.token_id_scanner import PreLexedTerminal

    for item in data:
        if type(item) is not list or len(item) != 3:
            raise Misfit("must be a list of terminals")
        terminal, token_id, text = TEXT.load(item[0]), COUNT.load(item[1]), TEXT.load(item[2])
        scanner._deferred_terminals.append(PreLexedTerminal(terminal, token_id, text))


DEFERRED_TERMINALS = Special(_save_terminals, _load_terminals)
