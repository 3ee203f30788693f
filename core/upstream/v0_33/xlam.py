"""The parser of xLAM."""

from __future__ import annotations

from core.parsing.checkpoint.kinds import BOOL, TEXTS, list_of
from core.parsing.checkpoint.part import Part, Parts, Reads
from core.upstream.v0_33.hunyuan import PROGRESS

PARTS: Parts = {
    "vllm.tool_parsers.xlam_tool_parser.xLAMToolParser": Part(
        {"streamed_args": TEXTS, "current_tools_sent": list_of(BOOL), "streaming_state": PROGRESS},
        reads=Reads(markers=()),
    ),
}
