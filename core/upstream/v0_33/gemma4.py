"""The parsers of Gemma 4."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.kinds import BOOL, COUNT, TEXT
from core.parsing.checkpoint.part import Changes, Part, Parts
from core.upstream.v0_33.engine import adapters
from core.upstream.v0_33.engine_slots import Extender, slots

_EXTENDER = Extender("vllm.parser.gemma4", 'a:<|"|>', {"held": TEXT, "opens": COUNT, "closes": COUNT})


def _carried(changes: Changes, engine: Any, _request: Any, _reads_of: Any) -> None:
    if engine._prefix_stripped:
        changes[id(engine)] = {"_reasoning_text": ""}


PARTS: Parts = {
    **adapters("Gemma4Parser"),
    "vllm.parser.gemma4.Gemma4Parser": Part(
        {"_reasoning_text": TEXT, "_prefix_stripped": BOOL, "_is_first_feed": BOOL},
        specials={"slots": slots(extender=_EXTENDER)},
        fewer=_carried,
    ),
    "vllm.tool_parsers.gemma4_engine_tool_parser.Gemma4EngineToolParser": Part(),
}
