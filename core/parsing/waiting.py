"""Parsers that wait in this process for the next chunk of their stream.

A parser is kept under the text of the checkpoint that was written of it, and
the request. The call that brings both takes it, and goes on where restoring
the checkpoint would have brought a fresh parser; every other call restores.
"""

from __future__ import annotations

from typing import NamedTuple

from core.choice.audit import Audit
from core.json import JsonValue
from core.parsing.chat_parser import ChatParser
from core.parsing.live import LiveStream
from core.upstream.parsers import ChatStreamProcessor

# A parser's objects, and what they hold for a token of the output: its text up to four times.
_PARSER_BYTES = 24 * 1024
_TOKEN_BYTES = 32


class Waiting(NamedTuple):
    """A processor between two chunks; the tokens of prompt and output so far; its audit; what was saved of a repair."""

    processor: ChatStreamProcessor
    prompt: int
    output: int
    audit: Audit | None
    repair: JsonValue


def keep_waiting(
    live: LiveStream,
    digest: bytes,
    checkpoint: str,
    prompt: int,
    output: int,
    audit: Audit | None,
    repair: JsonValue = None,
) -> None:
    """Let the parser and the audit of a stream wait; nobody may use them any more. ``digest`` is its request's."""
    waiting = Waiting(live.processor, prompt, output, audit, repair)
    cost = _PARSER_BYTES + len(checkpoint) + _TOKEN_BYTES * output
    live.parser.waiting.put((digest, checkpoint), waiting, cost)


def take_waiting(parser: ChatParser, digest: bytes, checkpoint: str) -> Waiting | None:
    """The parser that waits for the next chunk after a checkpoint; None: it has to be restored."""
    return parser.waiting.take((digest, checkpoint))
