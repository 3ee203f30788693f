"""The parser of Phi-4-mini."""

from __future__ import annotations

from core.parsing.checkpoint.part import READS_NOTHING, Part, Parts

PARTS: Parts = {
    "vllm.tool_parsers.phi4mini_tool_parser.Phi4MiniJsonToolParser": Part(reads=READS_NOTHING),
}
