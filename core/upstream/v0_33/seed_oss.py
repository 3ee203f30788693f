"""The parsers of Seed-OSS, based on those of Qwen 3."""

from __future__ import annotations

from core.parsing.checkpoint.part import Part, Parts
from core.upstream.v0_33.engine import adapters

PARTS: Parts = {
    **adapters("SeedOssParser"),
    "vllm.parser.seed_oss.SeedOssParser": Part(),
    "vllm.tool_parsers.seed_oss_engine_tool_parser.SeedOssEngineToolParser": Part(),
}
