"""Snapshots as text: JSON, compressed, in the base64 alphabet of URLs.

A text that stands more than once in a snapshot (as generated, in the arguments
that were streamed, in their parsed form) is written once. Unpacking is made
for hostile input: the size is bounded before and while decompressing, and
nothing in the data can ask for more than it brings along.
"""

from __future__ import annotations

import binascii
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from core.json import JsonValue
from core.parsing.checkpoint.errors import InvalidCheckpoint
from core.parsing.checkpoint.sharing import is_common, share, unshare
from core.parsing.checkpoint.state import Plain

# The first character says how the rest is to be read: compressed or not; as JSON that
# every reader understands, or with what Python adds (infinities, any integer, half a surrogate pair).
_DEFLATED, _STORED = "zZ", "jJ"
_TO_URL = bytes.maketrans(b"+/", b"-_")
# The two characters outside the URL alphabet must not pass.
_TO_STANDARD = bytes.maketrans(b"-_+/", b"+/!!")
# Data may grow by this factor when it is decompressed, beyond a first allowance. Text that
# compresses better than that (a model that repeats itself) is packed without compression.
_FREE_BYTES = 64 * 1024
_MAX_RATIO = 64


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
        return cls(_FREE_BYTES + 16 * max_model_len)


def pack(data: Plain) -> str:
    """A snapshot as text, of letters, digits, ``-`` and ``_``."""
    raw, exotic = _dump(share(data))
    # Higher levels take longer for a few per cent.
    deflated = zlib.compress(raw, 6 if len(raw) < 4096 else 4)
    if len(deflated) < len(raw) <= _allowance(len(deflated)):
        return _DEFLATED[exotic] + _encode(deflated)
    return _STORED[exotic] + _encode(raw)


def unpack(text: str, limits: Limits, admit: Callable[[int], None] = lambda size: None) -> Plain:
    """The snapshot that :func:`pack` made into ``text``. ``admit`` is told its size in bytes before it is read.

    Raises:
        InvalidCheckpoint: ``text`` is damaged, or larger than ``limits`` allows.
    """
    if type(text) is not str or not text or text[0] not in _DEFLATED + _STORED:
        raise InvalidCheckpoint("it is not packed data")
    # Four characters hold three bytes.
    if len(text) > limits.max_bytes // 3 * 4 + 8:
        raise InvalidCheckpoint("it is too large")
    raw = _decode(text[1:])
    if text[0] in _DEFLATED:
        raw = _inflate(raw, min(limits.max_bytes, _allowance(len(raw))))
    admit(len(raw))
    try:
        shared = _load(raw, text[0].isupper())
    except (ValueError, RecursionError) as exc:
        raise InvalidCheckpoint("it holds no data") from exc
    return unshare(shared, limits.max_bytes, lambda size: admit(len(raw) + size))


def _allowance(packed: int) -> int:
    return _FREE_BYTES + _MAX_RATIO * packed


def _dump(value: JsonValue) -> tuple[bytes, bool]:
    if is_common(value):
        try:
            return orjson.dumps(value), False
        except TypeError:  # an integer of more than 64 bits, or half a surrogate pair
            pass
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass"), True


def _load(raw: bytes, exotic: bool) -> JsonValue:
    return json.loads(raw.decode("utf-8", "surrogatepass")) if exotic else orjson.loads(raw)


def _encode(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).translate(_TO_URL).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    try:
        standard = text.encode("ascii").translate(_TO_STANDARD)
        return binascii.a2b_base64(standard + b"=" * (-len(standard) % 4), strict_mode=True)
    except ValueError as exc:
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
