"""The parsers of Cohere Command, whose filter is compiled code: they are refused."""

from __future__ import annotations

from typing import Any

from core.parsing.checkpoint.part import Part, Parts


def _refuse(_parser: Any) -> str | None:
    return "the cohere_command parsers keep their state in compiled code"


PARTS: Parts = {
    "vllm.parser.cohere_command.CohereCommandParser": Part(
        refused=_refuse,
        left_out=dict.fromkeys(("_pending_tool_ids", "last_unary_citations"), "refused"),
    ),
    "vllm.reasoning.cohere_command_reasoning_parser.BaseCohereCommandReasoningParser": Part(),
    "vllm.reasoning.cohere_command_reasoning_parser.CohereCommand3ReasoningParser": Part(),
    "vllm.reasoning.cohere_command_reasoning_parser.CohereCommand4ReasoningParser": Part(),
    "vllm.tool_parsers.cohere_command_tool_parser.BaseCohereCommandToolParser": Part(),
    "vllm.tool_parsers.cohere_command_tool_parser.CohereCommand3ToolParser": Part(),
    "vllm.tool_parsers.cohere_command_tool_parser.CohereCommand4ToolParser": Part(),
}
