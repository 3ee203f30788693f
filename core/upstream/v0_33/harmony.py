"""The harmony parser (gpt-oss). Its inner state machine, carried as the few tokens that lead to it.

The machine itself is compiled code whose state can be read but not set. What
it has done with completed messages is never asked again, and of a message's
text only a character that its last tokens leave unfinished matters. So a fresh
machine is fed the header of the message at hand and those tokens: a dozen
tokens, however long the output is.

A new machine takes the first header to be the assistant's, whose name the
prompt holds; every later header names its author. It keeps that assumption
until a header makes sense, which in a malformed output may not be the first.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

from core.json import JsonValue
from core.parsing.checkpoint.errors import Misfit
from core.parsing.checkpoint.kinds import COUNT, IDS, INDEX
from core.parsing.checkpoint.part import Part, Parts, Special
from core.upstream.parser_state import harmony_encoding, harmony_recipient

# Where the machine stands: not made yet, or between messages, in a header, in a message's text; the latter three with
# or without the assumption about the author.
_UNTOUCHED, _BETWEEN, _HEADER, _TEXT, _FIRST_BETWEEN, _FIRST_HEADER, _FIRST_TEXT = range(7)
_STATES = {
    _BETWEEN: "ExpectStart",
    _HEADER: "Header",
    _TEXT: "Content",
    _FIRST_BETWEEN: "ExpectStart",
    _FIRST_HEADER: "Header",
    _FIRST_TEXT: "Content",
}
# A header token costs the machine some 0.05 ms. Valid headers have about a dozen; an output that never leaves its
# header is carried up to here.
MAX_HEADER = 4096
# So many beginnings are tried where it is not plain which header led to a text, and so many tokens of each.
_ODD_HEADERS = 8
_ODD_LENGTH = 256
# Of an unfinished character at most three bytes are there, and no token has less than one. UTF-8 makes plain where a
# character begins, so that it does not matter in which one the first of these tokens begins.
_LAST_TOKENS = 3
# Set on machines made here: whether they were made with the assumption. vLLM always makes them so.
_ASSUMES = "checkpoint_assumes_assistant"


class _Tokens(NamedTuple):
    start: int
    message: int
    channel: int
    constrain: int
    assistant: int
    json: int


@cache
def _tokens() -> _Tokens:
    encoding = harmony_encoding()
    texts = ("<|start|>", "<|message|>", "<|channel|>", "<|constrain|>", "assistant", "json")
    return _Tokens(*(encoding.encode(text, allowed_special="all")[0] for text in texts))


def _save(parser: Any, _request: Any) -> JsonValue:
    """``[where, header, last tokens]`` in a text, else ``[where, tokens of the message, length of the header]``."""
    machine = parser._parser
    tokens = list(parser._current_message_tokens)
    if machine is None:
        return [_UNTOUCHED, IDS.save(tokens), 0]
    data = machine.state_data
    if data["state"] == "Content":
        return _save_text(parser, machine, data["header"], tokens)
    header = data.get("header_tokens", [])
    assumes = machine.current_role is not None
    if data["state"] == "ExpectStart":
        where = _FIRST_BETWEEN if assumes else _BETWEEN
    elif data["state"] == "Header":
        where = _FIRST_HEADER if assumes else _HEADER
    else:
        raise Misfit(f"is in the unknown state {data['state']}")
    if len(header) > MAX_HEADER or tokens[len(tokens) - len(header) :] != header:
        raise Misfit("is in a malformed header")
    return [where, IDS.save(tokens), len(header)]


def _save_text(parser: Any, machine: Any, parsed: JsonValue, tokens: list[int]) -> JsonValue:
    known = _tokens()
    # The first of them ends the header: what fails before it is not kept, and what follows is text.
    end = tokens.index(known.message) + 1 if known.message in tokens else 0
    # The assumption holds until a header was understood, and this is the first one if no message was completed.
    assumes = parser._num_processed_messages == 0 and getattr(machine, _ASSUMES, True)
    header = tokens[:end]
    where = _FIRST_TEXT if assumes else _TEXT
    starts = header.count(known.start)
    if starts != (0 if assumes else 1) or (starts and header[0] != known.start):
        # Headers that failed stand before the one that led here, or it is an odd one.
        header = _header_of(parsed, header, where)
    else:
        where, short = _shortened(where, tuple(header[starts:]))
        header = list(short)
    if not 0 < len(header) <= MAX_HEADER:
        raise Misfit("has a malformed header")
    return [where, IDS.save(header), IDS.save(tokens[end:][-_LAST_TOKENS:])]


@lru_cache(maxsize=256)
def _shortened(where: int, header: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The shortest header known to lead to the same channel and recipient: nothing else of it is ever asked for.

    Every token costs something at every restore, and the same few headers come again and again.
    """
    known = _tokens()
    short = list(header)
    to = where
    if where == _TEXT and short[:2] == [known.assistant, known.channel]:
        # What a new machine assumes.
        to, short = _FIRST_TEXT, short[1:]
    if short[-3:-1] == [known.constrain, known.json]:
        short = [*short[:-3], known.message]
    ways = [_machine(where, list(header)), _machine(to, short)] if len(short) < len(header) <= MAX_HEADER else []
    if ways and all(ways) and _way(ways[0]) == _way(ways[1]):
        return to, tuple(short)
    return where, header


def _way(machine: Any) -> tuple[str | None, str | None]:
    return machine.current_channel, harmony_recipient(machine.current_recipient)


def _header_of(parsed: JsonValue, tokens: list[int], where: int) -> list[int]:
    """The end of ``tokens`` that a machine understands as it did when it came to the text at hand."""
    starts = [0, *(i + 1 for i, token in enumerate(tokens) if token == _tokens().start)]
    for start in starts[: -_ODD_HEADERS - 1 : -1]:
        header = tokens[start:]
        if len(header) <= _ODD_LENGTH:
            machine = _machine(where, header)
            if machine is not None and machine.state_data.get("header") == parsed:
                return header
    raise Misfit("has a header that does not follow from its tokens")


def _machine(where: int, header: list[int], last: list[int] | None = None) -> Any:
    """A machine that was brought to where ``where`` says; None when the tokens lead elsewhere."""
    from openai_harmony import HarmonyError, Role, StreamableParser  # late: only gpt-oss models

    known = _tokens()
    assumes = where >= _FIRST_BETWEEN
    machine = StreamableParser(harmony_encoding(), role=Role.ASSISTANT if assumes else None)
    setattr(machine, _ASSUMES, assumes)
    try:
        if where in (_HEADER, _TEXT):
            machine.process(known.start)
        for token in header:
            machine.process(token)
        for token in last or ():
            machine.process(token)
        if where == _FIRST_BETWEEN:
            # A header that fails leaves the assumption alone.
            machine.process(known.channel)
            machine.process(known.message)
    except HarmonyError:
        if where != _FIRST_BETWEEN:
            return None
    return machine if machine.state_data["state"] == _STATES[where] and not machine.messages else None


def _load(parser: Any, data: JsonValue, _request: Any) -> None:
    if type(data) is not list or len(data) != 3 or type(data[0]) is not int or not _UNTOUCHED <= data[0] <= _FIRST_TEXT:
        raise Misfit("must be the position in a harmony message")
    where = data[0]
    tokens = IDS.load(data[1])
    header: list[int] = []
    last: list[int] = []
    if where in (_HEADER, _FIRST_HEADER):
        length = data[2]
        if type(length) is not int or not 0 <= length <= min(len(tokens), MAX_HEADER):
            raise Misfit("must have a header of a possible length")
        header = tokens[len(tokens) - length :]
    elif where in (_TEXT, _FIRST_TEXT):
        header, last = tokens, IDS.load(data[2])
        if not 0 < len(header) <= MAX_HEADER or len(last) > _LAST_TOKENS:
            raise Misfit("must have a header and at most an unfinished character")
        tokens = [*([_tokens().start] if where == _TEXT else []), *header, *last]
    if where != _UNTOUCHED:
        parser._parser = _machine(where, header, last)
        if parser._parser is None:
            raise Misfit("must be tokens of a harmony message")
    parser._current_message_tokens = tokens


def _ignore_prompt(_processor: Any, _prompt_token_ids: list[int]) -> None:
    """The prompt changes nothing."""


PARTS: Parts = {
    "vllm.parser.harmony.HarmonyParser": Part(
        {"_next_tool_call_index": INDEX, "_num_counted_tokens": COUNT, "_num_reasoning_tokens": COUNT},
        specials={"machine": Special(_save, _load)},
        kept=("_parser", "_num_processed_messages", "_current_message_tokens"),
        filled=("_current_message_tokens",),
        prompt=_ignore_prompt,
    ),
    "vllm.reasoning.gptoss_reasoning_parser.GptOssReasoningParser": Part(),
    "vllm.tool_parsers.gptoss_tool_parser.GptOssToolParser": Part(),
}
