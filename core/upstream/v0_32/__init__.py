"""The parsers of vLLM 0.32.0: what is not as in 0.33.0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.json import JsonValue
from core.parsing.checkpoint.errors import Misfit
from core.parsing.checkpoint.part import Parts, Special
from core.upstream import v0_33
from core.upstream.v0_33 import response_template

_BASE = v0_33.TABLE.parts
_ENGINE = "vllm.parser.engine.parser_engine.ParserEngine"
_SLOT = "vllm.parser.engine.parser_engine.ToolCallSlot"
_TEMPLATE = "vllm.parser.response_template"
_REASONING, _TOOL = "vllm.reasoning", "vllm.tool_parsers"


# -- the stream of a response template, which does not note the field that it is in -----------------


def _save(parser: Any, _request: Any) -> JsonValue:
    return response_template.save_stream(parser, lambda stream: None)


def _load(parser: Any, data: JsonValue, request: Any) -> None:
    if response_template.load_stream(parser, data, request) is not None:
        raise Misfit("names an open field")


_PARTS: Parts = {
    _ENGINE: _BASE[_ENGINE].without("_prompt_closes_reasoning"),
    _SLOT: _BASE[_SLOT].without("_streamed_joined", "_streamed_parts", "extend_open_value", "open_value_streams"),
    f"{_TEMPLATE}.ResponseTemplateParser": replace(
        _BASE[f"{_TEMPLATE}.ResponseTemplateParser"].without("_reasoning_counter"),
        specials={"stream": Special(_save, _load)},
    ),
    f"{_TEMPLATE}._ResponseStream": replace(
        _BASE[f"{_TEMPLATE}._ResponseStream"], kept=("_finalized", "_next_tool_index")
    ),
    # Muse Glimmer has what its successor took over.
    f"{_REASONING}.muse_glimmer_reasoning_parser.MuseGlimmerReasoningParser": _BASE[
        f"{_REASONING}.muse_reasoning_parser.MuseReasoningParser"
    ].without("_marker_ids"),
    f"{_TOOL}.muse_glimmer_tool_parser.MuseGlimmerToolParser": _BASE[f"{_TOOL}.muse_tool_parser.MuseToolParser"],
}
_GONE = (
    "vllm.parser.beam.BeamParser",
    "vllm.parser.beam.BeamReasoningParser",
    "vllm.parser.beam.BeamToolParser",
    f"{_TEMPLATE}._ReasoningTokenCounter",
    f"{_REASONING}.muse_reasoning_parser.MuseReasoningParser",
    f"{_TOOL}.muse_tool_parser.MuseToolParser",
    f"{_TOOL}.step5_tool_parser.Step5ToolParser",
)

TABLE = v0_33.TABLE.changed(_PARTS, _GONE)
