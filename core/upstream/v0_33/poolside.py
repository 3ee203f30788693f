"""The parsers of Poolside."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import BOOL, TEXT, TEXT_SET, TEXTS, list_of, optional
from core.parsing.checkpoint.part import READS_NOTHING, Part, Parts

PARTS: Parts = {
    "vllm.reasoning.poolside_v1_reasoning_parser.PoolsideV1ReasoningParser": Part(),
    "vllm.tool_parsers.poolside_v1_tool_parser.PoolsideV1ToolParser": Part(
        {
            "_buffer": TEXT,
            "_in_tool_call": BOOL,
            "_current_tool_name": optional(TEXT),
            "_pending_key": optional(TEXT),
            "_streaming_string_value": BOOL,
            "_tool_call_ids": TEXTS,
            "_args_started": list_of(BOOL),
            "_args_closed": list_of(BOOL),
            "_seen_keys": list_of(TEXT_SET),
        },
        reads=READS_NOTHING,
    ),
}
