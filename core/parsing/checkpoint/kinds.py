"""The kinds of values that a parser's state is made of, and their form in a checkpoint.

A kind is a pair of functions: ``save`` turns a live value into plain JSON data,
``load`` turns it back. Both accept exactly the values that vLLM's parsers
store in such a place and raise :class:`Misfit` for anything else: what cannot
be restored is never saved, and what a client forged is never stored. Every
``load`` does work in proportion to the data that it is given, no more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from core.json import JsonValue
from core.parsing.checkpoint.errors import Misfit

# Some parsers create an entry for every index up to a stored one, so indexes are kept far below what could hurt.
# A call takes a dozen tokens at the least: no answer holds more of them.
MAX_CALLS = 16384
# Counters, and offsets into text: only compared, added up and used to slice.
MAX_COUNT = 2**53
MAX_TOKEN_ID = 2**32 - 1
# Above this length, ids are carried as a string of the characters with these numbers: a third of the bytes.
_PACKED_IDS = 24
_MAX_CHARACTER = 0x10FFFF


class Kind(NamedTuple):
    """How values of one place are saved and loaded."""

    save: Callable[[Any], JsonValue]
    load: Callable[[JsonValue], Any]


def _save_bool(value: Any) -> JsonValue:
    if value is True:
        return 1
    if value is False:
        return 0
    raise Misfit("not a bool")


def _load_bool(value: JsonValue) -> Any:
    if type(value) is int and 0 <= value <= 1:
        return value == 1
    raise Misfit("must be 0 or 1")


def _bounded(low: int, high: int) -> Kind:
    def check(value: Any) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        raise Misfit(f"must be an integer from {low} to {high}")

    return Kind(check, check)


def _text(value: Any) -> Any:
    if type(value) is str:
        return value
    raise Misfit("must be a string")


class _Decoded:
    """Stands for a text that is what the tokenizer makes of the ids beside it."""


DECODED = _Decoded()


def _save_decodable(value: Any) -> JsonValue:
    return 0 if value is DECODED else _text(value)


def _load_decodable(value: JsonValue) -> Any:
    return DECODED if type(value) is int and value == 0 else _text(value)


BOOL = Kind(_save_bool, _load_bool)
INDEX = _bounded(-1, MAX_CALLS)
COUNT = _bounded(0, MAX_COUNT)
TOKEN_ID = _bounded(0, MAX_TOKEN_ID)
TEXT = Kind(_text, _text)
DECODABLE_TEXT = Kind(_save_decodable, _load_decodable)


def short_text(most: int) -> Kind:
    """A string of at most ``most`` characters, for buffers that parsers read character by character."""

    def check(value: Any) -> Any:
        if type(value) is str and len(value) <= most:
            return value
        raise Misfit(f"must be a string of at most {most} characters")

    return Kind(check, check)


def optional(kind: Kind) -> Kind:
    """``kind`` or None."""
    save, load = kind

    def save_optional(value: Any) -> JsonValue:
        return None if value is None else save(value)

    def load_optional(value: JsonValue) -> Any:
        return None if value is None else load(value)

    return Kind(save_optional, load_optional)


def list_of(kind: Kind) -> Kind:
    """A list whose items are all of ``kind``."""
    save, load = kind

    def save_list(value: Any) -> JsonValue:
        if type(value) is not list:
            raise Misfit("not a list")
        return [save(item) for item in value]

    def load_list(value: JsonValue) -> Any:
        if type(value) is not list:
            raise Misfit("must be a list")
        return [load(item) for item in value]

    return Kind(save_list, load_list)


def record(**kinds: Kind) -> Kind:
    """A dict with exactly these keys, saved as the list of its values."""
    names = list(kinds)

    def save_record(value: Any) -> JsonValue:
        if type(value) is not dict or len(value) != len(names):
            raise Misfit("not a record of the known form")
        return [kinds[name].save(value.get(name)) for name in names]

    def load_record(value: JsonValue) -> Any:
        if type(value) is not list or len(value) != len(names):
            raise Misfit(f"must be a list of {len(names)}")
        return {name: kinds[name].load(item) for name, item in zip(names, value, strict=True)}

    return Kind(save_record, load_record)


def enumeration(find: Callable[[], type[enum.Enum]]) -> Kind:
    """A member of the class that ``find`` gives, saved as its position. The class is not needed before a value is."""

    @cache
    def members() -> tuple[enum.Enum, ...]:
        return tuple(find())

    def save_member(value: Any) -> JsonValue:
        known = members()
        if type(value) is not type(known[0]):
            raise Misfit(f"not a {type(known[0]).__name__}")
        return known.index(value)

    def load_member(value: JsonValue) -> Any:
        known = members()
        if type(value) is int and 0 <= value < len(known):
            return known[value]
        raise Misfit(f"must be an integer from 0 to {len(known) - 1}")

    return Kind(save_member, load_member)


def _save_ids(value: Any) -> JsonValue:
    if type(value) is not list:
        raise Misfit("not a list of ids")
    if any(type(i) is not int or not 0 <= i <= MAX_TOKEN_ID for i in value):
        raise Misfit("not a list of token ids")
    if len(value) > _PACKED_IDS and max(value) <= _MAX_CHARACTER:
        return "".join(map(chr, value))
    return list(value)


def _load_ids(value: JsonValue) -> Any:
    if type(value) is str:
        return list(map(ord, value))
    if type(value) is list and all(type(i) is int and 0 <= i <= MAX_TOKEN_ID for i in value):
        return value
    raise Misfit("must be a list of token ids")


def _save_id_tuple(value: Any) -> JsonValue:
    if type(value) is not tuple:
        raise Misfit("not a tuple of ids")
    return _save_ids(list(value))


def _load_id_tuple(value: JsonValue) -> Any:
    return tuple(_load_ids(value))


def _save_text_set(value: Any) -> JsonValue:
    if type(value) is not set:
        raise Misfit("not a set")
    return sorted(_text(item) for item in value)


def _load_text_set(value: JsonValue) -> Any:
    if type(value) is not list:
        raise Misfit("must be a list of strings")
    return {_text(item) for item in value}


IDS = Kind(_save_ids, _load_ids)
ID_TUPLE = Kind(_save_id_tuple, _load_id_tuple)
TEXTS = list_of(TEXT)
TEXT_SET = Kind(_save_text_set, _load_text_set)
COUNTS = list_of(COUNT)
# Less than one mark of a format.
MARK = short_text(4096)
# What is held back until it is clear how it goes on: a run of brackets, of backslashes.
HELD = short_text(65536)

_SCALARS = frozenset({str, int, float, bool, type(None)})


def _save_json(value: Any) -> JsonValue:
    # A parser may change its value in place later, and what is saved must not follow: containers are copied.
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        if any(type(key) is not str for key in value):
            raise Misfit("a key is not a string")
        return {key: _save_json(item) for key, item in value.items()}
    if kind is list:
        return [_save_json(item) for item in value]
    raise Misfit(f"holds a {kind.__name__}")


def _load_json_dict(value: JsonValue) -> Any:
    if type(value) is dict:
        return value
    raise Misfit("must be an object")


def _save_json_dict(value: Any) -> JsonValue:
    return _save_json(_load_json_dict(value))


def _load_json(value: JsonValue) -> Any:
    return value


# What a model wrote as JSON, parsed: any JSON value stands for itself.
JSON = Kind(_save_json, _load_json)
JSON_DICT = Kind(_save_json_dict, _load_json_dict)


def one_of(values: Sequence[str]) -> Kind:
    """One of a few strings, saved as its position."""

    def save_choice(value: Any) -> JsonValue:
        if value in values:
            return values.index(value)
        raise Misfit("not one of the known values")

    def load_choice(value: JsonValue) -> Any:
        if type(value) is int and 0 <= value < len(values):
            return values[value]
        raise Misfit(f"must be an integer from 0 to {len(values) - 1}")

    return Kind(save_choice, load_choice)
