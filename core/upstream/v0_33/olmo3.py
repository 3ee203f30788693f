"""The parsers of OLMo 3."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import TEXT, enumeration
from core.parsing.checkpoint.part import Part, Parts, Reads
from core.upstream.parser_state import olmo3_states
from core.upstream.v0_33.phase_text import starts_with

PARTS: Parts = {
    "vllm.reasoning.olmo3_reasoning_parser.Olmo3ReasoningParser": Part(
        children=("buffer",),
        reads=Reads(markers=("think_end_first_token_ids", "think_end_rest_token_ids"), text=False),
    ),
    "vllm.reasoning.olmo3_reasoning_parser.Olmo3ReasoningBuffer": Part(
        {
            "buffer": TEXT,
            "state": enumeration(olmo3_states),
        }
    ),
    "vllm.tool_parsers.olmo3_tool_parser.Olmo3PythonicToolParser": Part(
        reads=Reads(markers=(), text=starts_with("<")),
        left_out={"current_tool_index": "another name for an attribute"},
    ),
}
