"""Anthropic's Messages: request types, and vLLM's conversion of a request into one for a chat."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel

from core.protocol.schema_error import BODY
from core.upstream.requests import validate_body

__all__ = [
    "EFFORTS",
    "count_type",
    "messages_type",
    "stop_reasons",
    "system_comes_first",
    "to_chat_request",
    "validate_count",
    "validate_messages",
]

import jinja2.ext
import jinja2.sandbox  # noqa: F401
from vllm.entrypoints.anthropic.protocol import (
    AnthropicCountTokensRequest,
    AnthropicEffort,
    AnthropicMessagesRequest,
)
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages, _to_anthropic_stop_reason

EFFORTS: tuple[str, ...] = get_args(AnthropicEffort)
"""How hard a model may be asked to think, besides "none"."""


def messages_type() -> type[BaseModel]:
    """vLLM's ``AnthropicMessagesRequest``."""
    request_type: type[BaseModel] = AnthropicMessagesRequest
    return request_type


def count_type() -> type[BaseModel]:
    """vLLM's ``AnthropicCountTokensRequest``."""
    request_type: type[BaseModel] = AnthropicCountTokensRequest
    return request_type


def validate_messages(body: Any, place: str = BODY) -> Any:
    """An ``AnthropicMessagesRequest`` of vLLM; ``place`` is where the body stands in that of the call.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return validate_body(AnthropicMessagesRequest.model_validate, body, place)


def validate_count(body: Any) -> Any:
    """An ``AnthropicCountTokensRequest`` of vLLM; see :func:`validate_messages`.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return validate_body(AnthropicCountTokensRequest.model_validate, body, BODY)


def to_chat_request(request: Any, *, merge_inline_system: bool, disabled_thinking_effort: str) -> Any:
    """vLLM's ``ChatCompletionRequest`` for a request of either type.

    With ``merge_inline_system`` system messages inside the conversation move
    to its start; ``disabled_thinking_effort`` stands for thinking that is off.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    return AnthropicServingMessages.to_chat_completion_request(
        request, merge_inline_system=merge_inline_system, disabled_thinking_effort=disabled_thinking_effort
    )


def system_comes_first(template: str | None) -> bool:
    """Whether a chat template refuses system messages that are not the first; so it is taken without a template."""
    return bool(AnthropicServingMessages._detect_merge_inline_system(template))


def stop_reasons(
    finish_reason: str | None, stop_reason: int | str | None, *, calls: bool, complete: bool
) -> tuple[str | None, str | None]:
    """``stop_reason`` and ``stop_sequence`` of a message.

    ``calls`` says that it calls a tool, ``complete`` that the last call is complete.
    """
    reason, sequence = _to_anthropic_stop_reason(finish_reason, stop_reason, tool_used=calls, tool_complete=complete)
    return reason, sequence
