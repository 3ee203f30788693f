"""The parsers of Inkling."""

from __future__ import annotations

from core.parsing.checkpoint.part import Part, Parts
from core.upstream.v0_33.engine import adapters

PARTS: Parts = {
    **adapters("InklingParser"),
    "vllm.parser.inkling.InklingParser": Part(),
    "vllm.tool_parsers.inkling_tool_parser.InklingEngineToolParser": Part(),
}
