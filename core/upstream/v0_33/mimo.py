"""The parsers of MiMo, based on those of Qwen 3."""

from __future__ import annotations

from core.parsing.checkpoint.part import Part, Parts
from core.upstream.v0_33.engine import adapters

PARTS: Parts = {
    **adapters("MiMoParser"),
    "vllm.parser.mimo.MiMoParser": Part(),
    "vllm.tool_parsers.mimo_tool_parser.MiMoToolParser": Part(),
}
