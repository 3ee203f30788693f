"""vLLM's classes that the state of a parser is made of, for the tables of the versions, which import nothing of vLLM.

Each function imports when it is called: a stream without such a part never pays for it.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


def engine_states() -> type[Enum]:
    """The states of a streaming parser engine."""
    # Late: parsers without an engine have no use for it.
    from vllm.parser.engine.parser_engine_config import ParserState

    states: type[Enum] = ParserState
    return states


def olmo3_states() -> type[Enum]:
    """The states of OLMo 3's reasoning buffer."""
    from vllm.reasoning.olmo3_reasoning_parser import Olmo3ReasoningState  # late: one parser has them

    states: type[Enum] = Olmo3ReasoningState
    return states


def new_tool_call_slot() -> Any:
    """A parser engine's record of one tool call, empty."""
    from vllm.parser.engine.parser_engine import ToolCallSlot  # late: only a stream with a tool call

    return ToolCallSlot()


def new_terminal(terminal: str, token_id: int, text: str) -> Any:
    """A special token that an engine's scanner holds back."""
    from vllm.parser.engine.token_id_scanner import PreLexedTerminal  # late: only a stream that holds one back

    return PreLexedTerminal(terminal, token_id, text)


def scan_required_calls(text: str) -> Any:
    """The spans of the calls in the JSON array of ``tool_choice: required``, as far as it is there."""
    from vllm.tool_parsers.streaming import _scan_required_tool_calls  # late: only `tool_choice: required`

    return _scan_required_tool_calls(text)


def harmony_recipient(recipient: str | None) -> str | None:
    """A recipient of harmony as vLLM's parser reads it."""
    from vllm.parser.harmony import HarmonyParser  # late: only gpt-oss models

    name: str | None = HarmonyParser._normalize_recipient(recipient)
    return name


def harmony_encoding() -> Any:
    """The encoding of the harmony package, loaded once."""
    from vllm.entrypoints.openai.parser.harmony_utils import get_encoding  # late: only gpt-oss models

    return get_encoding()
