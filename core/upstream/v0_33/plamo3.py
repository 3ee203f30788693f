"""The parsers of PLaMo 3."""

from __future__ import annotations

from core.parsing.checkpoint.part import Part, Parts
from core.upstream.v0_33.engine import adapters
from core.upstream.v0_33.engine_slots import slots

PARTS: Parts = {
    **adapters("Plamo3Parser"),
    # It has no argument converter and reads the raw arguments all the same.
    "vllm.parser.plamo3.Plamo3Parser": Part(specials={"slots": slots(raw_arguments=True)}),
    "vllm.tool_parsers.plamo3_engine_tool_parser.Plamo3EngineToolParser": Part(),
}
