"""Responses of gpt-oss models: what a request says to the model, in harmony, as vLLM writes it."""

from __future__ import annotations

from typing import Any

from openai_harmony import Message
from vllm.entrypoints.openai.parser.harmony_utils import (
    extract_instructions_from_messages,
    get_user_message,
    has_custom_tools,
    render_for_completion,
)
from vllm.entrypoints.openai.responses.harmony import (
    construct_harmony_previous_input_messages,
    response_input_to_harmony,
)
from vllm.entrypoints.openai.responses.utils import extract_tool_types

from core.upstream.harmony import preamble

__all__ = ["input_messages", "message_ids", "system_messages"]


def system_messages(request: Any, start_date: str | None) -> tuple[list[Message], Any]:
    """The messages before a request's input, and the input without what was taken out of it.

    ``start_date`` (YYYY-MM-DD) pins the date in the system message; None means today.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    custom = has_custom_tools(extract_tool_types(request.tools))
    instructions, given = request.instructions, request.input
    if instructions is None and isinstance(given, list):
        instructions, given = extract_instructions_from_messages(given)
    effort = request.reasoning.effort if request.reasoning else None
    messages = preamble(instructions, request.tools if custom else None, effort, custom, start_date)
    return [*messages, *construct_harmony_previous_input_messages(request)], given


def input_messages(request: Any, given: Any) -> list[Message]:
    """The messages of a request's input, as :func:`system_messages` left it.

    Raises:
        ValueError: a call's output without its call, or content that harmony does not have.
        Exception: of any kind; see ``core.upstream.refusals``.
    """
    if isinstance(given, str):
        return [get_user_message(given)] if given or not request.previous_input_messages else []
    messages: list[Message] = []
    before: list[Any] = []
    for item in given:
        message = response_input_to_harmony(item, before)
        if message is not None:
            messages.append(message)
        if getattr(item, "type", None) == "function_call":
            before.append(item)
    return messages


def message_ids(messages: list[Message]) -> list[int]:
    """The ids of a conversation, up to where the assistant goes on."""
    ids: list[int] = render_for_completion(messages)
    return ids
