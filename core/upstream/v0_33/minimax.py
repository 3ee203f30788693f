"""The parsers of MiniMax M2 and M3."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import BOOL, ID_TUPLE, IDS, TEXT, optional
from core.parsing.checkpoint.part import Part, Parts, Reads
from core.upstream.v0_33.engine import adapters
from core.upstream.v0_33.engine_slots import Extender, slots

_M2_EXTENDER = Extender("vllm.parser.minimax_m2", '<parameter name="a">', {"window": TEXT})


PARTS: Parts = {
    **adapters("MinimaxM2Parser"),
    **adapters("MinimaxM3Parser"),
    "vllm.parser.minimax_m2.MinimaxM2Parser": Part(specials={"slots": slots(extender=_M2_EXTENDER)}),
    # It looks through the arguments of all calls (``_convert_args``).
    "vllm.parser.minimax_m3.MinimaxM3Parser": Part(specials={"slots": slots(every_call=True)}),
    "vllm.reasoning.minimax_m2_reasoning_parser.MiniMaxM2ReasoningParser": Part(),
    "vllm.reasoning.minimax_m2_reasoning_parser.MiniMaxM2AppendThinkReasoningParser": Part(
        reads=Reads(markers=("start_token_id", "end_token_id"), text=False)
    ),
    "vllm.reasoning.minimax_m3_reasoning_parser.MiniMaxM3ReasoningParser": Part(
        {
            "_reasoning_ended_streaming": BOOL,
            "_reasoning_active_streaming": BOOL,
            "_pending_marker_streaming": BOOL,
            "_last_streaming_delta_token_ids": optional(ID_TUPLE),
            "_last_streaming_content_token_ids": optional(IDS),
        },
        reads=Reads(markers=("_start_token_ids", "_end_token_ids")),
    ),
    "vllm.tool_parsers.minimax_m2_tool_parser.MinimaxM2ToolParser": Part(),
    "vllm.tool_parsers.minimax_m3_tool_parser.MinimaxM3ToolParser": Part(),
}
