"""The parser of dots.llm1."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.kinds import TEXT
from core.parsing.checkpoint.part import Changes, Part, Parts, Reads
from core.upstream.v0_33.phase_text import save_text


def _asks_for_text(changes: Changes, state: Any, _tool: Any, _request: Any) -> None:
    """Asks only whether there was any text before."""
    save_text(changes, state, state.previous_text[:1])


PARTS: Parts = {
    "vllm.tool_parsers.dots_tool_parser.DotsToolParser": Part(
        {"_buffer": TEXT}, reads=Reads(markers=(), text=_asks_for_text)
    ),
}
