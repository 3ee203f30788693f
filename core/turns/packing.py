"""Token ids as short text: three bytes an id, compressed, in base64. Of ids as JSON it is a third."""

from __future__ import annotations

import base64
import binascii
import zlib
from array import array
from collections.abc import Sequence

# Ids of the largest vocabularies there are take 19 bits.
_BYTES = 3
MAX_PACKED_ID = 2 ** (8 * _BYTES) - 1


def pack_ids(ids: Sequence[int]) -> str:
    """The ids as text.

    Raises:
        OverflowError: an id takes more than three bytes.
    """
    wide = _wide(ids)
    if any(wide[3::4]):
        raise OverflowError(f"an id is above {MAX_PACKED_ID}")
    packed = bytearray(_BYTES * len(ids))
    for place in range(_BYTES):
        packed[place::_BYTES] = wide[place::4]
    return base64.b64encode(zlib.compress(packed, 6)).decode("ascii")


def unpack_ids(text: str, most: int) -> list[int]:
    """The ids of a text. Nothing longer than ``most`` ids is built.

    Raises:
        ValueError: the text is damaged, or holds more.
    """
    try:
        raw = base64.b64decode(text, validate=True)
        inflate = zlib.decompressobj()
        packed = inflate.decompress(raw, _BYTES * most + 1)
    except (binascii.Error, zlib.error) as exc:
        raise ValueError("the text of packed ids is damaged") from exc
    if len(packed) > _BYTES * most:
        raise ValueError(f"there are more than {most} packed ids")
    if not inflate.eof or inflate.unused_data or len(packed) % _BYTES:
        raise ValueError("the text of packed ids is damaged")
    wide = bytearray(4 * (len(packed) // _BYTES))
    for place in range(_BYTES):
        wide[place::4] = packed[place::_BYTES]
    return _narrow(wide)


def id_bytes(ids: Sequence[int]) -> bytes:
    """The ids as four bytes each, least first: what is hashed."""
    return bytes(_wide(ids))


def _wide(ids: Sequence[int]) -> bytes:
    # "I" has four bytes wherever CPython runs today; "little" is what both of Lambda's processors are.
    return array("I", ids).tobytes()


def _narrow(wide: bytes | bytearray) -> list[int]:
    return array("I", bytes(wide)).tolist()
