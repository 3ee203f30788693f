"""The parser in a stream state: the live stream as the text of ``checkpoint``, and back.

With it go the lengths of the prompt and of the output so far, in tokens, so
that a stream stays within the context length without carrying its ids.
"""

from __future__ import annotations

from typing import NamedTuple

from core.json import JsonValue
from core.parsing.checkpoint import InvalidCheckpoint, Limits, Moment, moment, pack, restore, unpack
from core.parsing.live import LiveStream

_MAX_LENGTH = 2**32


class Lengths(NamedTuple):
    """Tokens of the prompt, and of the output so far."""

    prompt: int
    output: int


class Written(NamedTuple):
    """A checkpoint as text; what was saved of the repaired reading; the parser's
    :class:`~core.parsing.checkpoint.Moment`."""

    text: str
    repair: JsonValue
    moment: Moment


def write_checkpoint(live: LiveStream, lengths: Lengths, audit: JsonValue, repair: JsonValue = None) -> Written:
    """The text of a live stream between two chunks, of its audit and its repaired reading. Changes nothing.

    Raises:
        CheckpointRefused: this parser cannot be carried; the caller replays.
    """
    now = moment(live.processor, live.parser.layouts)
    saved = [lengths.prompt, lengths.output, audit, now.data]
    return Written(pack(saved if repair is None else [*saved, repair]), repair, now)


def read_checkpoint(live: LiveStream, text: str, max_model_len: int) -> tuple[Lengths, JsonValue, JsonValue]:
    """Bring a fresh live stream to where the checkpoint was written.

    Its lengths, and what was saved of its audit and of its repaired reading.

    Raises:
        InvalidCheckpoint: the text is damaged, or not of this parser and request.
        LongWork: only short work is wanted, and it is long.
    """
    admit = (lambda size: None) if live.budget is None else live.budget.admit
    data = unpack(text, Limits.of_model_len(max_model_len), admit)
    if len(data) not in (4, 5):
        raise InvalidCheckpoint("it is not a checkpoint")
    prompt, output, audit, saved, *repair = data
    for length in (prompt, output):
        if type(length) is not int or not 0 <= length < _MAX_LENGTH:
            raise InvalidCheckpoint("a length is out of range")
    restore(live.processor, saved, live.parser.layouts)
    return Lengths(prompt, output), audit, repair[0] if repair else None
