"""The parser of calls written as a Python list."""

from __future__ import annotations

from core.parsing.checkpoint.part import Part, Parts, Reads
from core.upstream.v0_33.phase_text import starts_with

PARTS: Parts = {
    "vllm.tool_parsers.pythonic_tool_parser.PythonicToolParser": Part(
        reads=Reads(markers=(), text=starts_with("[")),
        left_out={"current_tool_index": "another name for an attribute"},
    ),
}
