"""The parsers of Llama 3 (JSON) and Llama 4 (Python calls)."""

from __future__ import annotations

from core.parsing.checkpoint.part import Part, Parts, Reads
from core.upstream.v0_33.phase_text import starts_with

PARTS: Parts = {
    "vllm.tool_parsers.llama_tool_parser.Llama3JsonToolParser": Part(
        reads=Reads(markers=(), text=starts_with("{", attribute="bot_token"))
    ),
    "vllm.tool_parsers.llama4_pythonic_tool_parser.Llama4PythonicToolParser": Part(
        reads=Reads(markers=(), text=starts_with("[", "<|python_start|>")),
        left_out={"current_tool_index": "another name for an attribute"},
    ),
}
