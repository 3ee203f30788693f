"""The parsers of vLLM 0.31.0: what is not as in 0.32.0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.parsing.checkpoint.kinds import BOOL
from core.parsing.checkpoint.part import Part, Parts
from core.upstream import v0_32
from core.upstream.v0_33 import composed, engine

_BASE = v0_32.TABLE.parts
_PARSER = "vllm.parser.abstract_parser.Parser"
_COMPOSED = "vllm.parser.abstract_parser.DelegatingParser"
_MISTRAL = "vllm.parser.mistral.MistralParser"
_TEMPLATE = "vllm.parser.response_template"
_REASONING, _TOOL = "vllm.reasoning", "vllm.tool_parsers"


def _compiled(_parser: Any) -> str | None:
    return "the minimax_m3 tool parser keeps its state in compiled code"


def _expat(_parser: Any) -> str | None:
    return "the step3p5 tool parser keeps its state in an XML parser, which cannot be read"


_XML_STATE = (
    "_pre_current_param_name",
    "_pre_inside_parameter",
    "_pre_param_buffer",
    "current_call_id",
    "current_function_name",
    "current_function_open",
    "current_param_is_first",
    "current_param_name",
    "current_param_value",
    "current_param_value_converted",
    "defer_current_parameter",
    "deferred_param_raw_value",
    "deltas",
    "last_completed_call_id",
    "last_processed_pos",
    "parameters",
    "parser",
    "should_emit_end_newline",
    "start_quote_emitted",
    "streaming_buffer",
    "text_content_buffer",
    "tool_call_index",
    "tools",
)
_PARTS: Parts = {
    # The calls of `tool_choice: required` are found by counting brackets from the beginning: all of the text is read.
    _PARSER: replace(_BASE[_PARSER], fewer=composed.phase(lambda text: text)),
    _COMPOSED: replace(_BASE[_COMPOSED], prompt=composed.reasoning_of_prompt),
    _MISTRAL: _BASE[_MISTRAL].without("current_tool_string_arguments"),
    f"{_TOOL}.rust_tool_parser.RustToolParser": Part(
        refused=_compiled, left_out=dict.fromkeys(("_parser", "_error"), "refused")
    ),
    f"{_TOOL}.step3p5_tool_parser.Step3p5ToolParser": Part(refused=_expat, left_out={"parser": "refused"}),
    f"{_TOOL}.step3p5_tool_parser.StreamingXMLToolCallParser": Part(
        refused=_expat, left_out=dict.fromkeys(_XML_STATE, "refused")
    ),
    f"{_REASONING}.step3p5_reasoning_parser.Step3p5ReasoningParser": Part({"_pending_reasoning_newline": BOOL}),
}
_GONE_ENGINES = ("MiMoParser", "MiniCPMVParser", "MinimaxM3Parser", "Plamo3Parser", "Step3p5Parser")
_GONE = (
    *(adapter for name in _GONE_ENGINES for adapter in engine.adapters(name)),
    "vllm.parser.chat_parsing.response_parser.ResponseParser",
    "vllm.parser.mimo.MiMoParser",
    "vllm.parser.minicpmv.EscapedNewlineNormalizer",
    "vllm.parser.minicpmv.MiniCPMVOutputNormalizer",
    "vllm.parser.minicpmv.MiniCPMVParser",
    "vllm.parser.minicpmv.MiniCPMVUnifiedParser",
    "vllm.parser.minimax_m3.MinimaxM3Parser",
    "vllm.parser.plamo3.Plamo3Parser",
    "vllm.parser.step3p5.Step3p5Parser",
    f"{_REASONING}.minicpmv_reasoning_parser.MiniCPMVParserReasoningAdapter",
    f"{_TEMPLATE}.ResponseTemplateParser",
    f"{_TEMPLATE}.ResponseTemplateReasoningParser",
    f"{_TEMPLATE}.ResponseTemplateToolParser",
    f"{_TEMPLATE}._ResponseStream",
    f"{_TOOL}.mimo_tool_parser.MiMoToolParser",
    f"{_TOOL}.plamo3_engine_tool_parser.Plamo3EngineToolParser",
)

TABLE = v0_32.TABLE.changed(_PARTS, _GONE)
