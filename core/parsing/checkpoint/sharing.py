"""Writing a text once that stands in a snapshot more than once.

What a model generates stands there as it came, in the arguments that were
streamed, and in their parsed form: the same characters, apart from the ends,
and apart from JSON's escapes. The longest text is the base; others are written
as a part of it with what stands before and after that part.

The shared form is ``[data]``, or ``[data, base, parts]`` where ``base`` is the
path of the base in ``data`` and ``parts`` is a list of ``[path, before, start,
length, escaped, after]``. A path is a list of indexes and keys; the text at a
part's path is empty. The part of an ``escaped`` one is JSON string content.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import orjson

from core.json import JsonValue
from core.parsing.checkpoint.errors import InvalidCheckpoint
from core.parsing.checkpoint.open_string import between_escapes

# Shorter texts and parts are left to the compressor.
_LEAST = 512
# A piece of this length is looked for in the base, so far from the end of the text that the ends may differ.
_PROBE = 32
_FROM_END = 96


def share(data: JsonValue) -> JsonValue:
    """``data`` in its shared form. Changes nothing."""
    texts: list[tuple[list[Any], str]] = []
    _find_texts(data, [], texts)
    if len(texts) < 2:
        return [data]
    base_path, base = max(texts, key=lambda found: len(found[1]))
    parts: list[list[Any]] = [
        [path, *part] for path, text in texts if path is not base_path and (part := _part_of(text, base)) is not None
    ]
    if not parts:
        return [data]
    return [_emptied(data, [path for path, *_ in parts]), base_path, parts]


def unshare(shared: JsonValue, max_length: int, admit: Callable[[int], None] = lambda size: None) -> list[JsonValue]:
    """The data of a shared form, whose parts are ``max_length`` characters at the most.

    ``admit`` is told how many they are.

    Raises:
        InvalidCheckpoint: it is not a shared form.
    """
    if type(shared) is not list or len(shared) not in (1, 3) or type(shared[0]) is not list:
        raise InvalidCheckpoint("it holds no snapshot")
    data: list[JsonValue] = shared[0]
    if len(shared) == 1:
        return data
    room = max_length
    try:
        base = _at(data, shared[1])
        if type(base) is not str or type(shared[2]) is not list:
            raise LookupError
        for path, before, start, length, escaped, after in shared[2]:
            if type(path) is not list or not path or _at(data, path) != "":
                raise LookupError
            if type(start) is not int or type(length) is not int or not 0 <= start <= start + length <= len(base):
                raise LookupError
            room -= length
            if room < 0:
                raise InvalidCheckpoint("it is too large")
            part = base[start : start + length]
            text = before + (_unescaped(part) if escaped else part) + after
            _at(data, path[:-1])[path[-1]] = text
    except (LookupError, TypeError, ValueError) as exc:
        raise InvalidCheckpoint("its parts do not fit together") from exc
    admit(max_length - room)
    return data


def is_common(value: JsonValue) -> bool:
    """Whether ``value`` is free of numbers that JSON does not have."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(is_common, value))
    return all(map(is_common, value.values())) if kind is dict else True


def _find_texts(value: JsonValue, path: list[Any], texts: list[tuple[list[Any], str]]) -> None:
    pairs = value.items() if type(value) is dict else enumerate(value)
    for key, item in pairs:
        kind = type(item)
        if kind is str:
            if len(item) >= _LEAST:
                texts.append(([*path, key], item))
        elif (kind is list or kind is dict) and item:
            _find_texts(item, [*path, key], texts)


def _part_of(text: str, base: str) -> tuple[str, int, int, int, str] | None:
    found = _common(text, base)
    if found is not None:
        at, start, length = found
        return text[:at], start, length, 0, text[at + length :]
    written = _escaped(text)
    found = _common(written, base) if written != text else None
    if found is None:
        return None
    at, start, length = found
    # The ends must not split an escape sequence.
    low, high = at, between_escapes(written, at + length)
    if between_escapes(written, low) != low:
        low = min(low + 6, high)
        low = between_escapes(written, low)
    if low < at or high - low < _LEAST:
        return None
    return _unescaped(written[:low]), start + low - at, high - low, 1, _unescaped(written[high:])


def _common(text: str, base: str) -> tuple[int, int, int] | None:
    """Where ``text`` and ``base`` share a long part: its start in both, and its length."""
    if len(text) < _LEAST:
        return None
    at = max(len(text) - _FROM_END - _PROBE, 0)
    start = base.rfind(text[at : at + _PROBE])
    if start == -1:
        return None
    after = _longest(min(len(text) - at, len(base) - start), lambda n: text[at : at + n] == base[start : start + n])
    before = _longest(min(at, start), lambda n: text[at - n : at] == base[start - n : start])
    return None if before + after < _LEAST else (at - before, start - before, before + after)


def _longest(limit: int, agree: Callable[[int], bool]) -> int:
    """The greatest length up to ``limit`` at which texts agree, given that they agree at all shorter ones."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if agree(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _escaped(text: str) -> str:
    try:
        return orjson.dumps(text)[1:-1].decode()
    except TypeError:  # half a surrogate pair
        return json.dumps(text, ensure_ascii=False)[1:-1]


def _unescaped(written: str) -> str:
    text = json.loads(f'"{written}"')
    if type(text) is not str:
        raise ValueError
    return text


def _emptied(data: JsonValue, paths: list[list[Any]]) -> JsonValue:
    """``data`` with an empty text at each path. Only what leads there is copied."""
    copies: dict[int, JsonValue] = {}

    def copied(value: JsonValue) -> JsonValue:
        copy = copies.get(id(value))
        if copy is None:
            copy = copies[id(value)] = value.copy()
            copies[id(copy)] = copy
        return copy

    root = copied(data)
    for path in paths:
        value = root
        for key in path[:-1]:
            value[key] = copied(value[key])
            value = value[key]
        value[path[-1]] = ""
    return root


def _at(value: JsonValue, path: JsonValue) -> JsonValue:
    for key in path:
        # A list takes only an index within it, a dict only a key that it has.
        if type(value) is list:
            if type(key) is not int or not 0 <= key < len(value):
                raise LookupError
        elif type(value) is not dict or key not in value:
            raise LookupError
        value = value[key]
    return value
