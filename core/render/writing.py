"""A conversation written out as the model was trained to read it.

The second step of a rendering: text from a chat template, text or ids from an
architecture's own code, ids from mistral-common or the harmony package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.render.conversation import Conversation
from core.render.mistral import is_mistral, mistral_ids
from core.render.renderer import Renderer
from core.upstream.conversations import apply_template


@dataclass(frozen=True)
class Written:
    """The text of a conversation, or its ids; and of each image in it the URL and uuid, as given."""

    prompt: str | list[int]
    images: list[tuple[Any, str | None]]


def write_conversation(renderer: Renderer, conversation: Conversation) -> Written:
    """The conversation as the model reads it.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    request = conversation.request
    if renderer.is_harmony:
        from core.upstream.harmony import harmony_ids  # late: only gpt-oss models load the harmony package

        tools = None if conversation.tools is None else request.tools
        start_date = renderer.options.system_start_date
        effort = renderer.options.reasoning_effort_map.get(request.reasoning_effort, request.reasoning_effort)
        return Written(harmony_ids(conversation.messages, tools, effort, start_date), [])
    arguments = conversation.params.get_apply_chat_template_kwargs()
    if is_mistral(renderer.tokenizer):
        return Written(mistral_ids(renderer.tokenizer, renderer.view, conversation.messages, arguments), [])
    if renderer.encoder is not None:
        kept = renderer.encoder.kept(conversation.messages) if conversation.repaired else conversation.messages
        return Written(renderer.encoder.render(renderer.view, kept, arguments), [])
    messages, params, repaired = conversation.messages, conversation.params, conversation.repaired
    return Written(
        *apply_template(renderer.view, renderer.templates, messages, params, arguments, text_for_texts=repaired)
    )
