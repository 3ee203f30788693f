"""Chats of Mistral models that have a ``tekken.json``: mistral-common renders them, no chat template does."""

from __future__ import annotations

from typing import Any

from core.tokenizer import Tokenizer
from core.tokenizer.mistral_chat import adjust_messages
from core.upstream.conversations import parse_messages
from core.upstream.model_view import ModelView


def is_mistral(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer renders chats by itself."""
    return bool(getattr(type(tokenizer), "IS_MISTRAL_TOKENIZER", False))


def mistral_ids(tokenizer: Any, view: ModelView, messages: Any, arguments: dict[str, Any]) -> list[int]:
    """The ids of a conversation; ``arguments`` are those that a chat template would get.

    Raises:
        ValueError, BadRequest: a message is malformed, holds more than text, or is out of place.
    """
    adjust_messages(messages)  # /tokenize has not done it: vLLM refuses a conversation with tool calls there
    parse_messages(messages, view, "string")  # refuses in vLLM's words what mistral-common would fetch
    ids: list[int] = tokenizer.apply_chat_template(messages, **arguments)
    return ids
