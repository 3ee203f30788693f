"""The parsers that read a response template (``hf``, ``beam``), and their stream.

The stream is made when the first chunk is parsed, for the prompt at hand. A
checkpoint carries what the prompt led to, not the prompt: the stream is made
again without one and then set. What was parsed into the final message is left
out: in a stream it was sent already and is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core.json import JsonValue
from core.parsing.checkpoint.errors import Misfit
from core.parsing.checkpoint.kinds import (
    BOOL,
    COUNT,
    INDEX,
    TEXT,
    Kind,
    list_of,
    optional,
)
from core.parsing.checkpoint.part import Part, Parts, Special

_STREAM: Mapping[str, Kind] = {"_prefix_end": COUNT, "_next_tool_index": INDEX, "_finalized": BOOL}
_MACHINE: Mapping[str, Kind] = {
    "_buffer": TEXT,
    "_pos": COUNT,
    "_current": optional(TEXT),
    "_body": TEXT,
    "_opened": BOOL,
    "_finalized": BOOL,
    "_prefix_len": COUNT,
}
_CAPTURES = list_of(list_of(TEXT))
# The two fields whose text is streamed as it comes: their collected text is never read.
_STREAMED_FIELDS = frozenset({"thinking", "content"})


def save_stream(parser: Any, region_of: Callable[[Any], Any]) -> JsonValue:
    """What a parser's stream needs to go on; ``region_of`` gives the event that opened the field it is in, or None."""
    prompt_known = BOOL.save(parser._prompt_token_ids is not None)
    stream = parser._stream
    if stream is None:
        return [prompt_known, TEXT.save(parser._prefix)]
    machine = stream.parser
    done = _done_with(machine, parser.response_template)
    region = region_of(stream)
    state = {name: getattr(machine, name) for name in _MACHINE}
    state["_buffer"] = state["_buffer"][done:]
    state["_pos"] -= done
    state["_prefix_len"] = max(state["_prefix_len"] - done, 0)
    if machine._current in _STREAMED_FIELDS:
        state["_body"] = ""
    return [
        prompt_known,
        [max(stream._prefix_end - done, 0), INDEX.save(stream._next_tool_index), BOOL.save(stream._finalized)],
        None if region is None else [TEXT.save(region["field"]), max(region["end"] - done, 0)],
        [kind.save(state[name]) for name, kind in _MACHINE.items()],
        _CAPTURES.save([[name, text] for name, text in machine._captures.items()]),
    ]


def _save(parser: Any, _request: Any) -> JsonValue:
    return save_stream(parser, lambda stream: stream._open_region)


def _done_with(machine: Any, template: Any) -> int:
    """How many characters of the input will not be looked at again.

    Literal marks are looked for from the position on, and an end that was cut
    off in a few characters before it. Patterns may look back: nothing is cut then.
    """
    longest = 0
    for field in template.fields.values():
        for pattern, literals in ((field.open_re, field.open_literals), (field.close_re, field.close_literals)):
            if pattern is not None and literals is None:
                return 0
            longest = max(longest, *map(len, literals or [""]))
    return int(max(machine._pos - 2 * longest, 0))


def load_stream(parser: Any, data: JsonValue, request: Any) -> Any:
    """Set a parser to what was saved; the event that opened the field that its stream is in, or None."""
    if type(data) is not list or len(data) not in (2, 5):
        raise Misfit("must be the position in a response template")
    if BOOL.load(data[0]):
        # Known, and done with: a prompt that a caller sends again must not start the stream anew.
        parser._prompt_token_ids = []
    if len(data) == 2:
        parser._prefix = TEXT.load(data[1])
        return None
    stream = parser._new_stream(
        request, enable_auto_tools=parser._enable_auto_tools, include_reasoning=request.include_reasoning
    )
    machine = stream.parser
    fields = parser.response_template.fields
    _set(stream, _STREAM, data[1])
    _set(machine, _MACHINE, data[3])
    if machine._current is not None and machine._current not in fields:
        raise Misfit("names a field that the template does not have")
    region = data[2]
    if region is not None:
        if type(region) is not list or len(region) != 2 or TEXT.load(region[0]) not in fields:
            raise Misfit("must be an open field of the template")
        region = {"type": "region_open", "field": region[0], "end": COUNT.load(region[1])}
    captures = _CAPTURES.load(data[4])
    if any(len(pair) != 2 for pair in captures):
        raise Misfit("must be captured texts")
    machine._captures = dict(captures)
    parser._stream = stream
    return region


def _load(parser: Any, data: JsonValue, request: Any) -> None:
    region = load_stream(parser, data, request)
    if parser._stream is not None:
        parser._stream._open_region = region


def _set(part: Any, kinds: Mapping[str, Kind], data: JsonValue) -> None:
    if type(data) is not list or len(data) != len(kinds):
        raise Misfit(f"must be a list of {len(kinds)}")
    for (name, kind), value in zip(kinds.items(), data, strict=True):
        setattr(part, name, kind.load(value))


def _read_prompt(processor: Any, prompt_token_ids: list[int]) -> None:
    parser = processor.parser
    parser.set_prompt_token_ids(prompt_token_ids)
    # The stream keeps what it needs of the prompt; without it, the whole prompt would be in the snapshot.
    parser._stream = parser._new_stream(
        processor.request,
        enable_auto_tools=parser._enable_auto_tools,
        include_reasoning=processor.request.include_reasoning,
    )


PARTS: Parts = {
    "vllm.parser.response_template.ResponseTemplateParser": Part(
        specials={"stream": Special(_save, _load)},
        kept=("_prompt_token_ids", "_prefix", "_stream"),
        left_out={"_reasoning_counter": "made by and for counting, which no stream does"},
        prompt=_read_prompt,
    ),
    # Never walked: the stream special of the parser keeps what is needed of them.
    "vllm.parser.response_template._ResponseStream": Part(kept=("_finalized", "_next_tool_index", "_open_region")),
    "vllm.parser.response_template._ReasoningTokenCounter": Part(
        left_out=dict.fromkeys(("open", "spans", "token_ends", "token_ids"), "counting, which no stream does")
    ),
    "vllm.parser.chat_parsing.response_parser.ResponseParser": Part(
        kept=(*_MACHINE, "_captures"),
        left_out=dict.fromkeys(("_malformed_fields", "_output"), "of the final message of a complete output"),
    ),
    "vllm.parser.response_template.ResponseTemplateReasoningParser": Part(),
    "vllm.parser.response_template.ResponseTemplateToolParser": Part(),
    "vllm.parser.beam.BeamParser": Part(),
    "vllm.parser.beam.BeamReasoningParser": Part(),
    "vllm.parser.beam.BeamToolParser": Part(),
}
