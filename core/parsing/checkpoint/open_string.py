"""What may be left out of a JSON text whose last string is still being written.

A parser that reads such a text again and again only to find where it goes on
does not need the middle of that string. This module finds a middle that can go
without a trace: neither the structure of the text, nor whether it is complete
and valid, nor what may follow depends on it.
"""

from __future__ import annotations

import json
import re

# Kept of the string, so that whatever stands around it in the text is read as before.
_HEAD = 32
_TAIL = 96
# Shorter middles are not worth their bookkeeping.
_LEAST = 64
# Everything up to the opening of a string that is not closed. A backslash means something within strings only.
_CLOSED = re.compile(r'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)


def middle_of_open_string(text: str) -> tuple[int, int] | None:
    """Start and end of the part of ``text`` that can be left out; None when there is none.

    ``text`` begins with a JSON value. The part lies within the string that is
    open at the end, ends some way before it, is valid as string content by
    itself and splits no escape sequence.
    """
    if len(text) < _HEAD + _TAIL + _LEAST:
        return None
    closed = _CLOSED.match(text)
    # Where the match ends there is a quote, or nothing.
    start, end = (closed.end() if closed else 0) + 1 + _HEAD, len(text) - _TAIL
    if end - start < _LEAST:
        return None
    start, end = between_escapes(text, start), between_escapes(text, end)
    try:
        json.loads(f'"{text[start:end]}"')
    except ValueError:
        return None
    return start, end


def between_escapes(text: str, position: int) -> int:
    """The last position up to ``position`` that is not within an escape sequence."""
    if _backslashes_before(text, position) % 2:
        position -= 1
    unicode = text.rfind("\\u", max(position - 5, 0), position)
    if unicode != -1 and _backslashes_before(text, unicode) % 2 == 0:
        position = unicode
    return position


def _backslashes_before(text: str, position: int) -> int:
    count = 0
    while position > count and text[position - 1 - count] == "\\":
        count += 1
    return count
