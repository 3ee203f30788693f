"""The parser of GigaChat 3."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import BOOL, TEXT, optional
from core.parsing.checkpoint.part import Part, Parts, Reads

PARTS: Parts = {
    "vllm.tool_parsers.gigachat3_tool_parser.GigaChat3ToolParser": Part(
        {"tool_started": BOOL, "tool_name_sent": BOOL, "tool_id": optional(TEXT), "end_content": BOOL},
        reads=Reads(markers=()),
    ),
}
