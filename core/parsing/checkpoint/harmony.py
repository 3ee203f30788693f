"""The harmony parser's inner state machine, carried as the few tokens that lead to it.

The machine itself is compiled code whose state can be read but not set. What
it has done with completed messages is never asked again, and of a message's
text only a character that its last tokens leave unfinished matters. So a fresh
machine is fed the header of the message at hand and those tokens: a dozen
tokens, however long the output is.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from core.parsing.checkpoint.errors import Misfit
from core.parsing.checkpoint.kinds import IDS, Json
from core.parsing.checkpoint.layout import Special

# Where the machine stands: untouched, between two messages, in a header, in a message's text; a header begins with
# a start token, apart from the first one's, which the machine begins in.
_UNTOUCHED, _BETWEEN, _FIRST_HEADER, _HEADER, _FIRST_TEXT, _TEXT = range(6)
# A header token costs the machine some 0.05 ms. Valid headers have about a dozen; an output that never leaves its
# header is carried up to here.
MAX_HEADER = 4096
# Of an unfinished character at most three bytes are there, and no token has less than one. UTF-8 makes plain where a
# character begins, so that it does not matter in which one the first of these tokens begins.
_LAST_TOKENS = 3


class _Markers(NamedTuple):
    start: int
    message: int


@cache
def _markers() -> _Markers:
    from vllm.entrypoints.openai.parser.harmony_utils import get_encoding

    encoding = get_encoding()
    start, message = (encoding.encode(text, allowed_special="all")[0] for text in ("<|start|>", "<|message|>"))
    return _Markers(start, message)


def _save(parser: Any, _request: Any) -> Json:
    """``[where, header tokens, last tokens]`` in a text, ``[where, tokens, length of the header]`` elsewhere."""
    machine = parser._parser
    tokens = list(parser._current_message_tokens)
    if machine is None:
        return [_UNTOUCHED, IDS.save(tokens), 0]
    data = machine.state_data
    if data["state"] == "ExpectStart":
        return [_BETWEEN, IDS.save(tokens), 0]
    if data["state"] == "Header":
        header = data["header_tokens"]
        where = _HEADER if machine.current_role is None else _FIRST_HEADER
        if len(header) > MAX_HEADER or tokens[len(tokens) - len(header) :] != header:
            raise Misfit("is in a malformed header")
        return [where, IDS.save(tokens), len(header)]
    if data["state"] != "Content":
        raise Misfit(f"is in the unknown state {data['state']}")
    markers = _markers()
    # The first of them ends the header: what fails before it is not kept, and what follows is text.
    end = tokens.index(markers.message) + 1 if markers.message in tokens else 0
    header = tokens[:end]
    where = _FIRST_TEXT
    if markers.start in header:
        # Headers that failed may stand before the one that led here.
        where = _TEXT
        header = header[len(header) - header[::-1].index(markers.start) :]
    if not 0 < len(header) <= MAX_HEADER:
        raise Misfit("has a malformed header")
    return [where, IDS.save(header), IDS.save(tokens[end:][-_LAST_TOKENS:])]


def _load(parser: Any, data: Json, _request: Any) -> None:
    if type(data) is not list or len(data) != 3 or type(data[0]) is not int or not _UNTOUCHED <= data[0] <= _TEXT:
        raise Misfit("must be the position in a harmony message")
    where = data[0]
    tokens = IDS.load(data[1])
    if where == _UNTOUCHED:
        parser._current_message_tokens = tokens
        return
    from openai_harmony import HarmonyError, Role, StreamableParser
    from vllm.entrypoints.openai.parser.harmony_utils import get_encoding

    first = where in (_FIRST_HEADER, _FIRST_TEXT)
    machine = StreamableParser(get_encoding(), role=Role.ASSISTANT if first else None)
    feed: list[int] = [] if first or where == _BETWEEN else [_markers().start]
    if where in (_HEADER, _FIRST_HEADER):
        length = data[2]
        if type(length) is not int or not 0 <= length <= min(len(tokens), MAX_HEADER):
            raise Misfit("must have a header of a possible length")
        feed += tokens[len(tokens) - length :]
    elif where in (_TEXT, _FIRST_TEXT):
        last = IDS.load(data[2])
        if not 0 < len(tokens) <= MAX_HEADER or len(last) > _LAST_TOKENS:
            raise Misfit("must have a header and at most an unfinished character")
        feed = feed + tokens + last
        tokens = list(feed)
    expected = {_BETWEEN: "ExpectStart", _HEADER: "Header", _FIRST_HEADER: "Header"}.get(where, "Content")
    try:
        for token in feed:
            machine.process(token)
    except HarmonyError as exc:
        raise Misfit("must be tokens of a harmony message") from exc
    if machine.state_data["state"] != expected or machine.messages:
        raise Misfit("must be tokens of one harmony message")
    parser._parser = machine
    parser._current_message_tokens = tokens


MACHINE = Special(_save, _load)
