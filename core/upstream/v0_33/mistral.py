"""The parsers of Mistral. For a vocabulary before v11 it keeps a running coroutine, and is refused."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.part import Part, Parts
from core.upstream.v0_33.engine import adapters

_OLD_STATE = (
    "current_tool_id",
    "current_tool_mistral_id",
    "current_tool_name",
    "current_tool_string_arguments",
    "parse_coro",
    "prev_tool_call_arr",
    "starting_new_tool",
    "streamed_args_for_tool",
    "streaming_state",
    "tool_call_started",
)


def _refuse_old(engine: Any) -> str | None:
    return "the mistral parser of vocabularies before v11 keeps a running coroutine" if engine._is_pre_v11 else None


PARTS: Parts = {
    **adapters("MistralParser"),
    "vllm.parser.mistral.MistralParser": Part(
        refused=_refuse_old, left_out=dict.fromkeys(_OLD_STATE, "of vocabularies before v11")
    ),
    "vllm.tool_parsers.mistral_tool_parser.MistralToolParser": Part(),
}
