"""The parser of Apertus."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import TEXT
from core.parsing.checkpoint.part import Part, Parts, Reads

PARTS: Parts = {
    "vllm.tool_parsers.apertus_tool_parser.ApertusToolParser": Part(
        {"buffered_delta_text": TEXT}, reads=Reads(markers=())
    ),
}
