"""The parser of LFM 2."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import TEXT
from core.parsing.checkpoint.part import Part, Parts, Reads

PARTS: Parts = {
    "vllm.tool_parsers.lfm2_tool_parser.Lfm2ToolParser": Part(
        {"_trailing_emitted": TEXT},
        reads=Reads(markers=()),
        left_out={"current_tool_index": "another name for an attribute"},
    ),
}
