"""Chat requests for a Mistral tokenizer: what vLLM changes and refuses before mistral-common sees them.

vLLM renders such a chat from the request's own messages, not from a template
(``renderers/mistral.py``, ``tokenizers/mistral.py``, 0.33.0); the messages of
the errors are its own. This module must never let a part through that is not
text: mistral-common fetches what an image or audio part points to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from core.errors import BadRequest

# The length of a tool call's id that Mistral's models know.
_CALL_ID_LENGTH = 9
_TEXT_PARTS = ("text", "thinking")


def adjust_messages(messages: Iterable[dict[str, Any]]) -> None:
    """Make lists of lazily validated tool calls and cut their ids to the end that Mistral's models can take, in place.

    Raises:
        BadRequest: a tool call is not of the documented form.
    """
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            message["tool_calls"] = _listed(message.get("tool_calls"))
            for call in message["tool_calls"]:
                _cut(call, "id")
        elif role in ("tool", "tool_results"):
            _cut(message, "tool_call_id")


def check_template_options(request: Any, efforts: Sequence[str]) -> None:
    """Refuse what only a chat template could serve; ``efforts`` are the reasoning efforts that there are.

    Raises:
        BadRequest: the request has such an option.
    """
    if request.chat_template is not None or request.chat_template_kwargs is not None:
        raise BadRequest(
            "chat_template is not supported for Mistral tokenizers. (parameter=chat_template)", "chat_template"
        )
    effort = request.reasoning_effort
    if effort and effort not in efforts:
        raise BadRequest(
            f"reasoning_effort={effort} is not supported by Mistral models. Supported values are: {list(efforts)}. "
            "(parameter=reasoning_effort)",
            "reasoning_effort",
        )


def check_conversation(
    messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool, continue_final_message: bool
) -> None:
    """Refuse a conversation whose last message is not the one that the options are for.

    Raises:
        BadRequest: it is not, or there is no message.
    """
    if add_generation_prompt and continue_final_message:
        raise BadRequest("Cannot set both `add_generation_prompt` and `continue_final_message` to True.")
    if not messages:
        raise BadRequest("the conversation has no messages", "messages")
    role = messages[-1].get("role")
    if add_generation_prompt and role == "assistant":
        raise BadRequest(
            "Cannot set `add_generation_prompt` to True when the last message is from the assistant. "
            "Consider using `continue_final_message` instead."
        )
    if continue_final_message and role != "assistant":
        raise BadRequest("Cannot set `continue_final_message` to True when the last message is not from the assistant.")


def text_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a message that holds only text; parts that say no kind are left out, as in vLLM.

    Raises:
        BadRequest: a part is of another kind.
    """
    content = message.get("content")
    if not content or isinstance(content, str):
        return dict(message)
    parts = [part for part in content if part.get("type")]
    for part in parts:
        if part["type"] not in _TEXT_PARTS:
            raise BadRequest(f"only text can be rendered, not a message part of type {str(part['type'])[:100]!r}")
    return {**message, "content": parts}


def _listed(calls: Iterable[dict[str, Any]] | None) -> list[dict[str, Any]]:
    try:
        return list(calls or ())  # pydantic checks the calls of a message as they are read
    except ValueError as exc:
        raise BadRequest(
            "Validating messages' `tool_calls` raised an error. Please ensure `tool_calls` are iterable of tool calls."
        ) from exc


def _cut(holder: dict[str, Any], key: str) -> None:
    if isinstance(holder.get(key), str):
        holder[key] = holder[key][-_CALL_ID_LENGTH:]
