"""The parser of Nemotron 3, based on that of Qwen 3."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.kinds import TEXTS
from core.parsing.checkpoint.part import Changes, Part, Parts
from core.upstream.v0_33.engine import adapters


def _carried(changes: Changes, engine: Any, request: Any, _reads_of: Any) -> None:
    if engine._streamed_reasoning:
        # Read at the end of the stream, joined, when the request asks for it.
        forced = engine._should_force_content(request)
        changes[id(engine)] = {"_streamed_reasoning": ["".join(engine._streamed_reasoning)] if forced else []}


PARTS: Parts = {
    **adapters("NemotronV3Parser"),
    "vllm.parser.nemotron_v3.NemotronV3Parser": Part({"_streamed_reasoning": TEXTS}, fewer=_carried),
}
