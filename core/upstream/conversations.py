"""Conversations: vLLM's reading of messages, its template arguments, and its use of a chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    "Messages",
    "apply_template",
    "check_media_options",
    "choose_template",
    "count_history_tool_calls",
    "has_non_text_content",
    "merge_kwargs",
    "parse_messages",
]


@dataclass(frozen=True)
class Messages:
    """A request's messages in the form that templates read, and of each image in them its URL and uuid, as given."""

    messages: list[Any]
    images: list[tuple[Any, str | None]]


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


def parse_messages(messages: Sequence[Any], view: ModelView, content_format: str) -> Messages:
    """A request's messages as templates read them; ``content_format`` is "string" or "openai".

    Raises:
        Exception: of any kind, over what the messages hold; see ``core.upstream.refusals``.
    """
    conversation, media, uuids = parse_chat_messages(messages, view, content_format)
    images = list(zip(media["image"], uuids["image"], strict=True)) if media and uuids else []
    return Messages(list(conversation), images)


def choose_template(tokenizer: Any, given: str | None, tools: Sequence[Any] | None, view: ModelView) -> str | None:
    """The text of the template for a conversation; None where there is no template.

    ``given`` stands in for the model's own, as a text or by name.
    """
    template: str | None = resolve_chat_template(tokenizer, given, tools, model_config=view)
    return template


def apply_template(
    view: ModelView,
    tokenizer: Any,
    messages: Sequence[Any],
    params: Any,
    arguments: Mapping[str, Any],
    *,
    text_for_texts: bool = False,
) -> tuple[str | list[int], list[tuple[Any, str | None]]]:
    """The text of a conversation, or its ids; and the images in it.

    ``tokenizer`` has the templates (``core.render.template``), ``params`` are
    vLLM's ``ChatParams`` of the request and ``arguments`` what they say to the template.
    With ``text_for_texts`` a template that reads texts alone gets texts, whatever format is forced.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    given = params.chat_template_content_format
    content_format = resolve_chat_template_content_format(
        chat_template=params.chat_template,
        tools=params.chat_template_kwargs.get("tools"),
        given_format="auto" if text_for_texts and given == "openai" else given,
        tokenizer=tokenizer,
        model_config=view,
    )
    read = parse_messages(messages, view, content_format)
    return safe_apply_chat_template(view, tokenizer, read.messages, **arguments), read.images
