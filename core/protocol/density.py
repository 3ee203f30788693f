"""How densely a JSON text is packed with lists and objects, counted before any of them is built.

Text, numbers and their lists take at most some twelve times their bytes in
memory. A list or an object takes hundreds of bytes and can be written in two,
so that a few megabytes of ``{},{},{}`` would fill a machine. No request of an
honest client comes near the bound: the objects that it holds by the thousand
are log probabilities, of 30 bytes at least.
"""

from __future__ import annotations

import re

from core.errors import PayloadTooLarge

# Any body may hold so many lists and objects (some 30 MB in memory); beyond, each needs so many bytes of the body.
FREE_CONTAINERS = 100_000
BYTES_A_CONTAINER = 20
# A message, a part of one or a tool becomes an object of vLLM's types, which takes three times as much.
BYTES_A_RENDERED_CONTAINER = 64
# A thousand strings and what is between them: taking all of them out at once would cost more than what is refused.
_RUN = re.compile(rb'(?:[^"]*"[^"\\]*(?:\\.[^"\\]*)*"){1,1000}', re.DOTALL)
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def check_density(body: bytes, bytes_each: int = BYTES_A_CONTAINER) -> None:
    """Refuse a body that holds more lists and objects than its size allows: one for ``bytes_each`` bytes.

    Counting takes a pass over the bytes, a second one only where brackets in
    strings may be what was counted.

    Raises:
        PayloadTooLarge: says both numbers.
    """
    allowed = max(FREE_CONTAINERS, len(body) // bytes_each)
    count = _containers(body)
    if count > allowed:
        count = _outside_strings(body)
    if count > allowed:
        raise PayloadTooLarge(
            f"the request body holds {count} lists and objects in {len(body)} bytes; at most {allowed} are read"
        )


def _outside_strings(body: bytes) -> int:
    """The containers of a body without what looks like some in its strings, in a few hundred KB of memory."""
    count, place = 0, 0
    while run := _RUN.match(body, place):
        count += _containers(_STRING.sub(b'""', run[0]))
        place = run.end()
    return count + _containers(body[place:])


def _containers(body: bytes) -> int:
    return body.count(b"{") + body.count(b"[")
