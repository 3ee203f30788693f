"""The parsers of Kimi K2 and K3."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import COUNT, ID_TUPLE, IDS, optional
from core.parsing.checkpoint.part import Part, Parts, Reads
from core.upstream.v0_33.engine import adapters

PARTS: Parts = {
    **adapters("KimiK2Parser"),
    "vllm.parser.kimi_k2.KimiK2Parser": Part(),
    # Where neither a reasoning nor a tool parser is at work, it reads the text itself.
    "vllm.parser.kimi_k3.KimiK3Parser": Part(reads=Reads()),
    "vllm.reasoning.kimi_k3_reasoning_parser.KimiK3ReasoningParser": Part(
        {
            "_last_streaming_delta_token_ids": optional(ID_TUPLE),
            "_last_streaming_content_token_ids": optional(IDS),
        },
        reads=Reads(markers=("_think_open_ids", "_think_close_ids")),
    ),
    "vllm.tool_parsers.kimi_k2_tool_parser.KimiK2ToolParser": Part(),
    "vllm.tool_parsers.kimi_k3_tool_parser.KimiK3ToolParser": Part(
        {"_sent_content_idx": COUNT, "_sent_tool_call_count": COUNT}, reads=Reads(markers=())
    ),
}
