"""Snapshots as text: JSON, compressed, in the base64 alphabet of URLs.

A text that stands more than once in a snapshot (as generated, in the arguments
that were streamed, in their parsed form) is written once. Unpacking is made
for hostile input: the size is bounded before and while decompressing, and
nothing in the data can ask for more than it brings along.
"""

from __future__ import annotations

import binascii
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

from core.parsing.checkpoint.errors import InvalidCheckpoint
from core.parsing.checkpoint.kinds import Json
from core.parsing.checkpoint.state import Plain

# The first character says how the rest is to be read.
_DEFLATED, _STORED = "z", "j"
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_TO_STANDARD = str.maketrans("-_", "+/")
_TO_URL = bytes.maketrans(b"+/", b"-_")
# Data may grow by this factor when it is decompressed, beyond a first allowance. Text that
# compresses better than that (a model that repeats itself) is packed without compression.
_FREE_BYTES = 64 * 1024
_MAX_RATIO = 64
# Texts of this length are looked for in the longest one.
_LEAST_SHARED = 64
_LEVEL = 6


@dataclass(frozen=True)
class Limits:
    """How large a snapshot may be, in bytes of JSON.

    Most parsers keep the text of the current phase, some keep parsed
    arguments beside it: a few times the text that the context length allows.
    """

    max_bytes: int = 4 * 1024 * 1024

    @classmethod
    def of_model_len(cls, max_model_len: int) -> Limits:
        """For outputs of up to ``max_model_len`` tokens."""
        return cls(_FREE_BYTES + 24 * max_model_len)


def pack(data: Plain) -> str:
    """A snapshot as text, of letters, digits, ``-`` and ``_``."""
    raw = _dump(_share(data))
    deflated = zlib.compress(raw, _LEVEL)
    if len(deflated) < len(raw) <= _allowance(len(deflated)):
        return _DEFLATED + _encode(deflated)
    return _STORED + _encode(raw)


def unpack(text: str, limits: Limits) -> Plain:
    """The snapshot that :func:`pack` made into ``text``.

    Raises:
        InvalidCheckpoint: ``text`` is damaged, or larger than ``limits`` allows.
    """
    if type(text) is not str or not text or text[0] not in (_DEFLATED, _STORED):
        raise InvalidCheckpoint("it is not packed data")
    # Four characters hold three bytes.
    if len(text) > limits.max_bytes // 3 * 4 + 8:
        raise InvalidCheckpoint("it is too large")
    raw = _decode(text[1:])
    if text[0] == _DEFLATED:
        raw = _inflate(raw, min(limits.max_bytes, _allowance(len(raw))))
    try:
        shared = json.loads(raw.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as exc:
        raise InvalidCheckpoint("it holds no data") from exc
    return _unshare(shared, limits)


def _allowance(packed: int) -> int:
    return _FREE_BYTES + _MAX_RATIO * packed


def _dump(value: Json) -> bytes:
    # Models may write half of a surrogate pair as an escape: such text is carried as it is.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _encode(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).translate(_TO_URL).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    if not _URL_SAFE.fullmatch(text):
        raise InvalidCheckpoint("it is not base64")
    try:
        return binascii.a2b_base64(text.translate(_TO_STANDARD) + "=" * (-len(text) % 4))
    except binascii.Error as exc:
        raise InvalidCheckpoint("it is not base64") from exc


def _inflate(packed: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(packed, limit)
    except zlib.error as exc:
        raise InvalidCheckpoint("it is damaged") from exc
    if not inflater.eof or inflater.unused_data:
        raise InvalidCheckpoint("it is damaged, or too large")
    return raw


# -- texts that stand more than once --------------------------------------------------------------
#
# ``[data, base, parts]``: ``base`` is the path of the longest text, ``parts`` lists where else parts of it stand:
# ``[path, start, length, escaped]``. A path is a list of indexes and keys. ``escaped`` parts are JSON string
# content, and stand for what it means.


def _share(data: Plain) -> Json:
    texts: list[tuple[list[Any], str]] = []
    _find_texts(data, [], texts)
    if len(texts) < 2:
        return [data]
    path, base = max(texts, key=lambda found: len(found[1]))
    parts: list[Any] = []
    for other, text in texts:
        if other is path:
            continue
        escaped = 0
        start = base.find(text)
        length = len(text)
        if start == -1:
            written = json.dumps(text, ensure_ascii=False)[1:-1]
            start = base.find(written) if written != text else -1
            length, escaped = len(written), 1
        if start != -1:
            parts.append([other, start, length, escaped])
    if not parts:
        return [data]
    data = _copy(data)
    for other, *_ in parts:
        _at(data, other[:-1])[other[-1]] = ""
    return [data, path, parts]


def _find_texts(value: Json, path: list[Any], texts: list[tuple[list[Any], str]]) -> None:
    pairs = value.items() if type(value) is dict else enumerate(value)
    for key, item in pairs:
        kind = type(item)
        if kind is str:
            if len(item) >= _LEAST_SHARED:
                texts.append(([*path, key], item))
        elif (kind is list or kind is dict) and item:
            _find_texts(item, [*path, key], texts)


def _copy(value: Json) -> Json:
    if type(value) is list:
        return [_copy(item) for item in value]
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    return value


def _at(value: Json, path: Json) -> Json:
    for key in path:
        # A list takes only an index within it, a dict only a key that it has.
        if type(value) is list and (type(key) is not int or not 0 <= key < len(value)):
            raise LookupError
        if type(value) is not list and (type(value) is not dict or key not in value):
            raise LookupError
        value = value[key]
    return value


def _unshare(shared: Json, limits: Limits) -> Plain:
    if type(shared) is not list or len(shared) not in (1, 3) or type(shared[0]) is not list:
        raise InvalidCheckpoint("it holds no snapshot")
    data: Plain = shared[0]
    if len(shared) == 1:
        return data
    room = limits.max_bytes
    try:
        base = _at(data, shared[1])
        if type(base) is not str or type(shared[2]) is not list:
            raise LookupError
        for path, start, length, escaped in shared[2]:
            if type(path) is not list or not path or _at(data, path) != "":
                raise LookupError
            if type(start) is not int or type(length) is not int or not 0 <= start <= start + length <= len(base):
                raise LookupError
            room -= length
            if room < 0:
                raise InvalidCheckpoint("it is too large")
            part = base[start : start + length]
            _at(data, path[:-1])[path[-1]] = _text_of(part) if escaped else part
    except (LookupError, TypeError, ValueError) as exc:
        raise InvalidCheckpoint("its parts do not fit together") from exc
    return data


def _text_of(written: str) -> str:
    text = json.loads(f'"{written}"')
    if type(text) is not str:
        raise ValueError
    return text
