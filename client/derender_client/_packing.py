"""Token ids as short text, which our server reads: three bytes an id, compressed, in base64."""

from __future__ import annotations

import base64
import zlib
from array import array
from collections.abc import Sequence


def pack_ids(ids: Sequence[int]) -> str | list[int]:
    """The ids as text; as they are where one takes more than three bytes."""
    wide = array("I", ids)
    if any(number >= 2**24 for number in wide):
        return list(ids)
    data = wide.tobytes()
    packed = bytearray(3 * len(ids))
    for place in range(3):
        packed[place::3] = data[place::4]
    return base64.b64encode(zlib.compress(packed, 6)).decode("ascii")
