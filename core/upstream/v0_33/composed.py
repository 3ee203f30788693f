"""What every parser is made of: the parser that composes a reasoning and a tool parser, and the base classes of both.

The composed parser keeps the whole text and all token ids of the current phase
for its two parsers. Most never look at them; others only ask whether certain
ids occurred; some read the text, but not what lies behind them. Each says so in
its family's module (``Reads``); which of them is at work is decided here. A
parser that says nothing is carried whole.

Every rule was read from the parser's source and holds for any output, malformed
ones too. ``tests/checkpoint`` compares with uninterrupted runs.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from core.parsing.checkpoint.id_runs import fewer_ids
from core.parsing.checkpoint.kinds import BOOL, COUNT, DECODABLE_TEXT, DECODED, IDS, INDEX, JSON, TEXTS
from core.parsing.checkpoint.open_string import middle_of_open_string
from core.parsing.checkpoint.part import READS_NOTHING, CarriedRule, Changes, Part, Parts, Reads
from core.upstream.parser_state import scan_required_calls

# A class that sets nothing but these is a choice of parsers, made for one deployment.
CHOICES = frozenset(
    {
        "__doc__",
        "__firstlineno__",
        "__module__",
        "__static_attributes__",
        "_enable_auto_tools",
        "reasoning_parser_cls",
        "tool_parser_cls",
        "tool_strict_level",
    }
)
# What a tool parser notes of its calls.
CALLS = {"prev_tool_call_arr": JSON, "streamed_args_for_tool": TEXTS, "current_tool_id": INDEX}

_ReadsOf = Callable[[Any], Reads | None]


# -- what is carried of the text and the ids of a phase -------------------------------------------


def phase(required: Callable[[str], str]) -> CarriedRule:
    """The rule of a composed parser; ``required`` says what of the JSON of ``tool_choice: required`` is read again."""

    def rule(changes: Changes, parser: Any, request: Any, reads_of: _ReadsOf) -> None:
        state = parser._stream_state
        reasoning, tool = parser._reasoning_parser, parser._tool_parser
        if reasoning is not None and not state.reasoning_ended:
            _read_by(reasoning, changes, state, request, reads_of)
        elif tool is not None and state.reasoning_ended:
            _tool_phase(changes, parser, request, reads_of, required)
        else:
            _read_by(parser, changes, state, request, reads_of)

    return rule


def _tool_phase(
    changes: Changes, parser: Any, request: Any, reads_of: _ReadsOf, required: Callable[[str], str]
) -> None:
    state, tool, choice = parser._stream_state, parser._tool_parser, request.tool_choice
    if tool.engine_based_streaming or (choice == "none" and reads_of(parser) == READS_NOTHING):
        changes[id(state)] = {"previous_text": "", "previous_token_ids": []}
    elif tool.supports_required_and_named and choice and choice not in ("none", "auto"):
        # Forced calls come as bare JSON, which vLLM reads without the parser.
        text = required(state.previous_text) if choice == "required" else ""
        changes[id(state)] = {"previous_text": text, "previous_token_ids": []}
    else:
        _read_by(tool, changes, state, request, reads_of)


def _read_by(part: Any, changes: Changes, state: Any, request: Any, reads_of: _ReadsOf) -> None:
    reads = reads_of(part)
    while reads is not None and reads.through:
        part = getattr(part, reads.through)
        reads = reads_of(part)
    if reads is None:
        return
    found: dict[str, Any] = {}
    if reads.markers is not None:
        found["previous_token_ids"] = _ids_read(state.previous_token_ids, part, reads.markers)
    if reads.text is False:
        found["previous_text"] = ""
    changes[id(state)] = found
    if callable(reads.text):
        reads.text(changes, state, part, request)


def _ids_read(ids: list[int], part: Any, markers: tuple[str, ...]) -> list[int]:
    if not markers:
        return []
    wanted: set[int | None] = set()
    for name in markers:
        value = attrgetter(name)(part)
        wanted.update(value if isinstance(value, list | tuple) else (value,))
    return fewer_ids(ids, wanted)


def required_calls(text: str) -> str:
    """The JSON array of ``tool_choice: required`` without the middle of an argument that is being written.

    vLLM scans the array again at every step, for offsets only.
    """
    if len(text) < 256:
        return text
    spans = scan_required_calls(text)
    if not spans or spans[-1].args_start is None or spans[-1].args_end is not None:
        return text
    middle = middle_of_open_string(text)
    return text if middle is None or middle[0] <= spans[-1].args_start else text[: middle[0]] + text[middle[1] :]


def _decode_text(parser: Any) -> None:
    state = parser._stream_state
    if state.previous_text is DECODED:
        state.previous_text = parser.model_tokenizer.decode(state.previous_token_ids)


# -- the prompt -----------------------------------------------------------------------------------


def _read_prompt(processor: Any, prompt_token_ids: list[int]) -> None:
    if not processor.parser._stream_state.prompt_reasoning_checked:
        processor.parser.set_prompt_token_ids(prompt_token_ids)
        reasoning_of_prompt(processor, prompt_token_ids)


def reasoning_of_prompt(processor: Any, prompt_token_ids: list[int]) -> None:
    """Note once whether the prompt leaves reasoning open."""
    parser = processor.parser
    state = parser._stream_state
    if state.prompt_reasoning_checked:
        return
    state.prompt_reasoning_checked = True
    reasoning = parser._reasoning_parser
    if reasoning is None or parser.is_reasoning_end(prompt_token_ids):
        state.reasoning_ended = True
    else:
        reasoning.adjust_initial_state_from_prompt(prompt_token_ids)


PARTS: Parts = {
    "vllm.parser.abstract_parser.StreamState": Part(
        {
            "reasoning_ended": BOOL,
            "tool_call_text_started": BOOL,
            "prompt_reasoning_checked": BOOL,
            "previous_text": DECODABLE_TEXT,
            "previous_token_ids": IDS,
            "history_tool_call_cnt": COUNT,
            "history_tool_call_cnt_initialized": BOOL,
            "function_name_returned": BOOL,
        }
    ),
    "vllm.parser.abstract_parser.Parser": Part(
        children=("_stream_state", "_reasoning_parser", "_tool_parser"),
        # Of what came before neither a reasoning nor a tool parser's phase, most composed parsers read nothing.
        reads=READS_NOTHING,
        fewer=phase(required_calls),
        after=_decode_text,
    ),
    "vllm.parser.abstract_parser.DelegatingParser": Part(prompt=_read_prompt),
    "vllm.reasoning.abs_reasoning_parsers.ReasoningParser": Part(),
    "vllm.reasoning.basic_parsers.BaseThinkingReasoningParser": Part(
        reads=Reads(markers=("start_token_id", "end_token_id"), text=False)
    ),
    "vllm.reasoning.identity_reasoning_parser.IdentityReasoningParser": Part(reads=READS_NOTHING),
    "vllm.tool_parsers.abstract_tool_parser.ToolParser": Part({**CALLS, "current_tool_name_sent": BOOL}),
}
