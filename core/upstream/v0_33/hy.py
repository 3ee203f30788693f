"""The parsers of HY 3 and HY 4 (Hunyuan)."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.kinds import BOOL, COUNT, JSON_DICT, TEXT, optional
from core.parsing.checkpoint.part import Changes, Part, Parts, Reads
from core.upstream.v0_33.composed import CALLS
from core.upstream.v0_33.phase_text import save_text

_ARGUMENTS = {
    "_buffer": TEXT,
    "_streaming_tool_name": optional(TEXT),
    "_completed_args": JSON_DICT,
    "_current_arg_key": optional(TEXT),
    "_current_arg_is_string": BOOL,
    "_streamed_json_len": COUNT,
}


def _v3_text(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
    """Looks in the text only for the end of all calls."""
    text: str = state.previous_text
    end = tool.tool_call_end_token + tool.tool_calls_end_token
    save_text(changes, state, end if end in text else text[max(len(text) - len(end) + 1, 0) :])


def _v4_text(changes: Changes, state: Any, tool: Any, request: Any) -> None:
    if not tool._is_guided(request):
        _v3_text(changes, state, tool._extractor, request)


PARTS: Parts = {
    "vllm.reasoning.hy_v3_reasoning_parser.HYV3ReasoningParser": Part(children=("_identity_parser",)),
    "vllm.reasoning.hy_v4_reasoning_parser.HYV4ReasoningParser": Part(
        children=("_extractor",),
        reads=Reads(markers=("_extractor.start_token_id", "_extractor.end_token_id"), text=False),
    ),
    "vllm.reasoning.hy_v4_reasoning_parser.HYV4ReasoningExtractor": Part(),
    "vllm.tool_parsers.hy_v3_tool_parser.HYV3ToolParser": Part(
        _ARGUMENTS,
        late={"_current_tool_call_id": TEXT},
        reads=Reads(markers=("tool_calls_start_token_id",), text=_v3_text),
    ),
    "vllm.tool_parsers.hy_v4_tool_parser.HYV4ToolParser": Part(
        children=("_extractor",),
        alone=True,
        reads=Reads(markers=("_extractor.tool_calls_start_token_id",), text=_v4_text),
        left_out=dict.fromkeys(CALLS, "the extractor's, handed over again by every call"),
    ),
    "vllm.tool_parsers.hy_v4_tool_parser.HYV4ToolExtractor": Part({**CALLS, **_ARGUMENTS}),
}
