"""The parser of Jamba."""

from __future__ import annotations

from core.parsing.checkpoint.part import Part, Parts, Reads

PARTS: Parts = {
    "vllm.tool_parsers.jamba_tool_parser.JambaToolParser": Part(reads=Reads(markers=())),
}
