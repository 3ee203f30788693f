"""The parsers of MiniCPM 5 and MiniCPM-V; the latter is based on that of Qwen 3."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import COUNT, HELD, MARK, optional
from core.parsing.checkpoint.part import Part, Parts, Reads
from core.upstream.v0_33.engine import adapters

PARTS: Parts = {
    **adapters("MiniCPMVParser"),
    "vllm.parser.minicpmv.MiniCPMVParser": Part(),
    "vllm.parser.minicpmv.MiniCPMVUnifiedParser": Part(children=("_output_normalizer",)),
    "vllm.parser.minicpmv.MiniCPMVOutputNormalizer": Part(children=("_reasoning", "_content")),
    "vllm.parser.minicpmv.EscapedNewlineNormalizer": Part({"_closing_marker": optional(MARK), "_pending": HELD}),
    "vllm.reasoning.minicpmv_reasoning_parser.MiniCPMVParserReasoningAdapter": Part(),
    "vllm.tool_parsers.minicpm5xml_tool_parser.MiniCPM5XMLToolParser": Part(
        {"_processed_len": COUNT}, reads=Reads(markers=())
    ),
}
