"""Writing JSON that may hold what a client sent.

``orjson`` refuses two things that JSON can carry and clients do send: integers
beyond 64 bits, and lone surrogates (half of an escaped pair). They are written
by the standard library then, as ASCII with escapes. This is the one place that
knows; nothing that writes a client's values may call ``orjson.dumps`` itself.

It also asks for 256 bytes of memory for each item of a list before it writes
the first, which for a list of a million ids is 256 MB. Long lists of numbers
and texts are written in pieces where an answer may hold some.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson

# Items of a list that are written at once: 256 KB are asked for them.
_PIECE = 1024


def json_bytes(value: Any, sort_keys: bool = False) -> bytes:
    """``value`` as compact JSON; with ``sort_keys`` the same for equal values."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), sort_keys=sort_keys).encode("ascii")


def long_json_bytes(value: Any) -> bytes:
    """As :func:`json_bytes`, of what may hold long lists of ids or texts, in a few times the bytes that come out."""
    try:
        return orjson.dumps(_in_pieces(value) if _is_long(value) else value)
    except TypeError:
        return json_bytes(value)


def _is_long(value: Any) -> bool:
    """Whether a list or an object holds a long list, itself included, in objects and lists of them."""
    if type(value) is list:
        if len(value) > _PIECE:
            return True
        if not value or not isinstance(value[0], dict):
            return False
        for one in value:
            if _is_long(one):
                return True
    elif isinstance(value, dict):
        for one in value.values():
            if (type(one) is list or type(one) is dict) and _is_long(one):
                return True
    return False


def _in_pieces(value: Any) -> Any:
    """``value`` with its long lists already written."""
    if not _is_long(value):
        return value
    if isinstance(value, dict):
        return {name: _in_pieces(one) if type(one) in (list, dict) else one for name, one in value.items()}
    items = [_in_pieces(one) for one in value] if isinstance(value[0], dict) else value
    return orjson.Fragment(_pieces(items)) if len(value) > _PIECE else items


def _pieces(items: Sequence[Any]) -> bytes:
    parts = (orjson.dumps(items[start : start + _PIECE])[1:-1] for start in range(0, len(items), _PIECE))
    return b"[" + b",".join(parts) + b"]"
