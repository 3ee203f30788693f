"""Chats of Mistral models that have a ``tekken.json``: mistral-common renders them, no chat template does."""

from __future__ import annotations

from typing import Any

from vllm.renderers.chat_utils import parse_chat_messages
from vllm.utils.mistral import is_mistral_tool_parser

from core.render.model_view import ModelView
from core.tokenizer import Tokenizer
from core.tokenizer.mistral_chat import adjust_messages


def is_mistral(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer renders chats by itself."""
    return bool(getattr(type(tokenizer), "IS_MISTRAL_TOKENIZER", False))


def constrains_always(tokenizer: Any, parser_cls: Any) -> bool:
    """Whether the parser must see every request: Mistral's grammars keep special tokens out of plain answers, too."""
    return (
        parser_cls.tool_parser_cls is not None
        and is_mistral_tool_parser(parser_cls.tool_parser_cls)
        and is_mistral(tokenizer)
        and tokenizer.supports_grammar
    )


def mistral_ids(tokenizer: Any, view: ModelView, messages: Any, arguments: dict[str, Any]) -> list[int]:
    """The ids of a conversation; ``arguments`` are those that a chat template would get.

    Raises:
        ValueError, BadRequest: a message is malformed, holds more than text, or is out of place.
    """
    adjust_messages(messages)  # /tokenize has not done it: vLLM refuses a conversation with tool calls there
    parse_chat_messages(messages, view, "string")  # refuses in vLLM's words what mistral-common would fetch
    ids: list[int] = tokenizer.apply_chat_template(messages, **arguments)
    return ids
