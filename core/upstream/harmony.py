"""The harmony format of gpt-oss models, as vLLM writes it with the harmony package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.entrypoints.openai.parser.harmony_utils import (
    build_harmony_preamble,
    extract_instructions_from_messages,
    parse_chat_inputs_to_harmony_messages,
    render_for_completion,
)

from core.upstream.refusals import invalid


def harmony_ids(
    messages: Sequence[Any], tools: Sequence[Any] | None, reasoning_effort: str | None, start_date: str | None
) -> list[int]:
    """The ids of a conversation, up to where the assistant goes on.

    ``tools`` None leaves out the tools' channel, too. ``start_date``
    (YYYY-MM-DD) pins the date in the system message; None means today.

    Raises:
        Exception: of any kind, over what the messages and tools hold; see ``core.upstream.refusals``.
    """
    instructions, rest = extract_instructions_from_messages([_with_calls(message) for message in messages])
    if reasoning_effort == "none":
        raise invalid("Harmony does not support reasoning_effort='none'", "reasoning_effort")
    before = preamble(instructions, tools, reasoning_effort, tools is not None, start_date)
    ids: list[int] = render_for_completion([*before, *parse_chat_inputs_to_harmony_messages(rest)])
    return ids


def preamble(
    instructions: str | None,
    tools: Sequence[Any] | None,
    reasoning_effort: str | None,
    with_custom_tools: bool,
    start_date: str | None,
) -> list[Any]:
    """The system and developer messages of a conversation; ``start_date`` is as in :func:`harmony_ids`.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    messages: list[Any] = build_harmony_preamble(
        instructions=instructions,
        tools=tools,
        reasoning_effort=reasoning_effort,
        with_custom_tools=with_custom_tools,
    )
    if start_date:
        messages[0].content[0].with_conversation_start_date(start_date)
    return messages


def _with_calls(message: Any) -> Any:
    """An assistant message with its ``tool_calls`` as a list, which harmony's reader takes for granted."""
    if message.get("role") != "assistant":
        return message
    return {**message, "tool_calls": list(message.get("tool_calls") or ())}
