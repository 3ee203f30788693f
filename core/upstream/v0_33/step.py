"""The parsers of Step 3, 3.5 and 5; the latter two are based on those of Qwen 3."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.kinds import BOOL, COUNT
from core.parsing.checkpoint.part import Changes, Part, Parts, Reads
from core.upstream.v0_33.engine import adapters
from core.upstream.v0_33.phase_text import save_text


def _from_position(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
    """Reads the text from a position on."""
    position = tool.position
    if position <= len(state.previous_text):
        save_text(changes, state, state.previous_text[position:])
        changes[id(tool)] = {"position": 0}


PARTS: Parts = {
    **adapters("Step3p5Parser"),
    "vllm.parser.step3p5.Step3p5Parser": Part(),
    "vllm.reasoning.step3_reasoning_parser.Step3ReasoningParser": Part(
        reads=Reads(markers=("think_end_token_id",), text=False)
    ),
    "vllm.tool_parsers.step3_tool_parser.Step3ToolParser": Part(
        {"position": COUNT, "tool_block_started": BOOL, "tool_block_finished": BOOL},
        reads=Reads(markers=(), text=_from_position),
    ),
    "vllm.tool_parsers.step3p5_tool_parser.Step3p5ToolParser": Part(),
    "vllm.tool_parsers.step5_tool_parser.Step5ToolParser": Part(),
}
