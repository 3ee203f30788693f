"""The parsers of Muse and Muse Glimmer."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.kinds import BOOL, COUNT, DECODED, TEXT
from core.parsing.checkpoint.part import Changes, Part, Parts, Reads


def _decoded_text(changes: Changes, state: Any, reasoning: Any, _request: Any) -> None:
    """Decodes all ids again at every step, and reads the text too: mostly they say the same."""
    if state.previous_text and reasoning.model_tokenizer.decode(state.previous_token_ids) == state.previous_text:
        changes[id(state)] = {"previous_text": DECODED}


PARTS: Parts = {
    "vllm.reasoning.muse_reasoning_parser.MuseReasoningParser": Part(
        {"_emitted_reasoning": TEXT, "_emitted_content": TEXT, "_tool_handoff_done": BOOL},
        reads=Reads(text=_decoded_text),
        left_out={"_marker_ids": "set by and for counting, which no stream does"},
    ),
    "vllm.reasoning.muse_glimmer_reasoning_parser.MuseGlimmerReasoningParser": Part(),
    "vllm.tool_parsers.muse_tool_parser.MuseToolParser": Part(
        {"_streamed_content_len": COUNT, "_streamed_reasoning_len": COUNT, "_emitted_tool_calls": COUNT},
        reads=Reads(markers=()),
    ),
    "vllm.tool_parsers.muse_glimmer_tool_parser.MuseGlimmerToolParser": Part(),
}
