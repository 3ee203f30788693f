"""Writing JSON that may hold what a client sent.

``orjson`` refuses two things that JSON can carry and clients do send: integers
beyond 64 bits, and lone surrogates (half of an escaped pair). They are written
by the standard library then, as ASCII with escapes. This is the one place that
knows; nothing that writes a client's values may call ``orjson.dumps`` itself.
"""

from __future__ import annotations

import json
from typing import Any

import orjson


def json_bytes(value: Any, sort_keys: bool = False) -> bytes:
    """``value`` as compact JSON; with ``sort_keys`` the same for equal values."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), sort_keys=sort_keys).encode("ascii")
