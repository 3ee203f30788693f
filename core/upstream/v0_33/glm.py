"""The parsers of GLM 4.5 and later, and of Ling 3, which is based on them."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import TEXT
from core.parsing.checkpoint.part import Part, Parts
from core.upstream.v0_33.engine import adapters
from core.upstream.v0_33.engine_slots import Extender, slots

_EXTENDER = Extender("vllm.parser.glm47_moe", "<arg_key>a</arg_key><arg_value>", {"tail": TEXT})


PARTS: Parts = {
    **adapters("Glm47MoeParser"),
    **adapters("Ling3Parser"),
    "vllm.parser.glm47_moe.Glm47MoeParser": Part(specials={"slots": slots(extender=_EXTENDER)}),
    "vllm.parser.ling3.Ling3Parser": Part(),
    "vllm.tool_parsers.glm47_moe_tool_parser.Glm47MoeModelToolParser": Part(),
    "vllm.tool_parsers.ling3_tool_parser.Ling3ToolParser": Part(),
}
