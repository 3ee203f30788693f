"""The parsers of Qwen 3, on which those of several other families are based."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import BOOL, TEXT
from core.parsing.checkpoint.part import Part, Parts
from core.upstream.v0_33.engine import adapters
from core.upstream.v0_33.engine_slots import Extender, slots

_EXTENDER = Extender("vllm.parser.qwen3", "<parameter=a>", {"window": TEXT, "started": BOOL, "held": TEXT})


PARTS: Parts = {
    **adapters("Qwen3Parser"),
    "vllm.parser.qwen3.Qwen3Parser": Part(specials={"slots": slots(extender=_EXTENDER)}),
    "vllm.tool_parsers.qwen3_engine_tool_parser.Qwen3EngineToolParser": Part(),
}
