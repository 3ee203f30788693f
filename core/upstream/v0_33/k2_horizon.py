"""The parsers of K2 Horizon."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.kinds import BOOL, COUNT, TEXT, optional
from core.parsing.checkpoint.part import READS_NOTHING, Changes, Part, Parts, Reads
from core.upstream.v0_33.phase_text import save_text


def _own_text(changes: Changes, state: Any, tool: Any, _request: Any) -> None:
    """Keeps a text of its own, of which it reads what was not sent yet."""
    save_text(changes, state, "")
    cursor = tool._stream_cursor
    if tool._stream_resolved:
        changes[id(tool)] = {"_stream_text": "", "_stream_cursor": 0, "_stream_group_start": None}
    elif cursor <= len(tool._stream_text):
        group = tool._stream_group_start
        changes[id(tool)] = {
            "_stream_text": tool._stream_text[cursor:],
            "_stream_cursor": 0,
            "_stream_group_start": None if group is None else group - cursor,
        }


PARTS: Parts = {
    "vllm.reasoning.k2_horizon_reasoning_parser.K2HorizonReasoningParser": Part(
        {"_stream_buffer": TEXT, "_stream_at_start": BOOL, "_stream_finished": BOOL}, reads=READS_NOTHING
    ),
    "vllm.tool_parsers.k2_horizon_tool_parser.K2HorizonToolParser": Part(
        {
            "_pending_content": TEXT,
            "_content_seen": BOOL,
            "_stream_text": TEXT,
            "_stream_resolved": BOOL,
            "_stream_cursor": COUNT,
            "_stream_group_start": optional(COUNT),
        },
        reads=Reads(markers=(), text=_own_text),
    ),
}
