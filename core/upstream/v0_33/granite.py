"""The parsers of Granite."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import BOOL, TEXT
from core.parsing.checkpoint.part import READS_NOTHING, Part, Parts, Reads
from core.upstream.v0_33.engine import adapters
from core.upstream.v0_33.phase_text import starts_with

PARTS: Parts = {
    **adapters("GraniteParser"),
    **adapters("GraniteThinkingParser"),
    "vllm.parser.granite.GraniteParser": Part(),
    "vllm.parser.granite_thinking.GraniteThinkingParser": Part({"_content_started": BOOL}),
    "vllm.reasoning.granite_reasoning_parser.GraniteReasoningParser": Part(reads=Reads(markers=())),
    "vllm.tool_parsers.granite_20b_fc_tool_parser.Granite20bFCToolParser": Part(
        reads=Reads(markers=(), text=starts_with(attribute="bot_token"))
    ),
    "vllm.tool_parsers.granite4_tool_parser.Granite4ToolParser": Part(
        {"look_ahead": TEXT, "in_tc": BOOL},
        reads=READS_NOTHING,
        left_out={"start_in_tc": "written and never read"},
    ),
    "vllm.tool_parsers.granite_engine_tool_parser.GraniteEngineToolParser": Part(),
}
