"""The parsers of ERNIE 4.5."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import TEXT
from core.parsing.checkpoint.part import Part, Parts, Reads

PARTS: Parts = {
    "vllm.reasoning.ernie45_reasoning_parser.Ernie45ReasoningParser": Part(),
    "vllm.tool_parsers.ernie45_tool_parser.Ernie45ToolParser": Part(
        {"_buffer": TEXT}, reads=Reads(markers=("newline_token_id",), text=False)
    ),
}
