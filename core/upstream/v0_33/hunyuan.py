"""The parsers of Hunyuan A13B."""

from __future__ import annotations

from typing import Any

from core.json import JsonValue
from core.parsing.checkpoint.errors import Misfit
from core.parsing.checkpoint.kinds import BOOL, COUNT, IDS, INDEX, TEXT, TEXTS, list_of, one_of, optional, record
from core.parsing.checkpoint.part import READS_NOTHING, Part, Parts, Reads, Special

# The reasoning parser compares tokens with one of these lists of its own.
_SEQUENCES = (
    "think_start_ids",
    "think_start_ids_fast",
    "response_start_ids",
    "response_start_ids_fast",
    "response_end_ids",
)


def _save_sequences(parser: Any, _request: Any) -> JsonValue:
    saved = []
    for name in ("expected_sequence", "expected_sequence_side"):
        sequence = getattr(parser, name)
        found = [i for i, other in enumerate(_SEQUENCES) if getattr(parser, other) is sequence]
        if not found:
            raise Misfit("expects an unknown sequence")
        saved.append(found[0])
    return saved


def _load_sequences(parser: Any, data: JsonValue, _request: Any) -> None:
    kind = one_of(_SEQUENCES)
    if type(data) is not list or len(data) != 2:
        raise Misfit("must be two sequences")
    parser.expected_sequence = getattr(parser, kind.load(data[0]))
    parser.expected_sequence_side = getattr(parser, kind.load(data[1]))


# What the tool parser notes of its calls, in the form that xLAM's has, too.
PROGRESS = record(
    current_tool_index=INDEX,
    tool_ids=list_of(optional(TEXT)),
    sent_tools=list_of(record(sent_name=BOOL, sent_arguments_prefix=BOOL, sent_arguments=TEXT)),
)


PARTS: Parts = {
    "vllm.reasoning.hunyuan_a13b_reasoning_parser.HunyuanA13BReasoningParser": Part(
        {
            "current_state": one_of(("idle", "think", "response")),
            "sequence_index": COUNT,
            "token_buffer": IDS,
            "text_buffer": TEXT,
        },
        specials={"sequences": Special(_save_sequences, _load_sequences)},
        kept=("expected_sequence", "expected_sequence_side"),
        reads=READS_NOTHING,
    ),
    "vllm.tool_parsers.hunyuan_a13b_tool_parser.HunyuanA13BToolParser": Part(
        {"streamed_args": TEXTS, "current_tools_sent": list_of(BOOL), "streaming_state": PROGRESS},
        reads=Reads(markers=()),
    ),
}
