"""The parser of InternLM 2."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import COUNT
from core.parsing.checkpoint.part import Part, Parts, Reads

PARTS: Parts = {
    "vllm.tool_parsers.internlm2_tool_parser.Internlm2ToolParser": Part({"position": COUNT}, reads=Reads(markers=())),
}
