"""Conversations: vLLM's reading of messages, its template arguments, and its use of a chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vllm.entrypoints.generate.base.protocol import validate_request_mm_kwargs
from vllm.parser.utils import count_history_tool_calls
from vllm.renderers import merge_kwargs
from vllm.renderers.chat_utils import has_non_text_content, parse_chat_messages
from vllm.renderers.hf import (
    resolve_chat_template,
    resolve_chat_template_content_format,
    safe_apply_chat_template,
)

from core.upstream.model_view import ModelView

__all__ = [
    "apply_template",
    "check_media_options",
    "choose_template",
    "count_history_tool_calls",
    "has_non_text_content",
    "merge_kwargs",
    "parse_messages",
]


def check_media_options(request: Any) -> None:
    """Refuse the options that change how media are read; any request may hold them, also as unknown fields.

    Raises:
        VLLMValidationError: there are some.
    """
    validate_request_mm_kwargs(
        mm_processor_kwargs=getattr(request, "mm_processor_kwargs", None),
        media_io_kwargs=getattr(request, "media_io_kwargs", None),
        trust_request_mm_kwargs=False,
    )


def parse_messages(messages: Sequence[Any], view: ModelView, content_format: str) -> list[Any]:
    """A request's messages in the form that templates read; ``content_format`` is "string" or "openai".

    Raises:
        Exception: of any kind, over what the messages hold; see ``core.upstream.refusals``.
    """
    conversation, _, _ = parse_chat_messages(messages, view, content_format)
    return list(conversation)


def choose_template(tokenizer: Any, given: str | None, tools: Sequence[Any] | None, view: ModelView) -> str | None:
    """The text of the template for a conversation; None where there is no template.

    ``given`` stands in for the model's own, as a text or by name.
    """
    template: str | None = resolve_chat_template(tokenizer, given, tools, model_config=view)
    return template


def apply_template(
    view: ModelView, tokenizer: Any, messages: Sequence[Any], params: Any, arguments: Mapping[str, Any]
) -> str | list[int]:
    """The text of a conversation, or its ids.

    ``tokenizer`` has the templates (``core.render.template``), ``params`` are
    vLLM's ``ChatParams`` of the request and ``arguments`` what they say to the template.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    content_format = resolve_chat_template_content_format(
        chat_template=params.chat_template,
        tools=params.chat_template_kwargs.get("tools"),
        given_format=params.chat_template_content_format,
        tokenizer=tokenizer,
        model_config=view,
    )
    rendered: str | list[int] = safe_apply_chat_template(
        view, tokenizer, parse_messages(messages, view, content_format), **arguments
    )
    return rendered
