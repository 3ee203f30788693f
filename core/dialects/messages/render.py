"""Rendering Messages requests, and counting the tokens of their prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from core.dialects.dialect import Counted
from core.dialects.messages.conversation import chat_request, read_messages
from core.json import Json
from core.model import Model
from core.render.chat import find_lost, prepare_chat, render_valid_chat, take_turn
from core.render.media import AS_ASKED, ImageHandling
from core.render.prompt import check_prompt
from core.upstream.messages import count_type, messages_type, validate_count
from core.upstream.refusals import refusals


def render(model: Model, body: Any, request_id: str | None = None, images: ImageHandling = AS_ASKED) -> Json:
    """The ``GenerateRequest`` of a Messages request; see :class:`~core.dialects.dialect.Rendering`."""
    body, turn = take_turn(model, body)
    return render_valid_chat(model, read_messages(model, body), request_id, images, turn)


def forms() -> Sequence[type[BaseModel]]:
    return (messages_type(),)


def count(model: Model, body: Any, *, relayed: bool = False) -> Counted:
    """How many tokens the prompt of a request has; see :class:`~core.dialects.dialect.Counting`."""
    request = validate_count(body)
    model.resolve_name(request.model)
    chat = chat_request(model, request)
    renderer = model.renderer
    with refusals():
        prepared = prepare_chat(renderer, chat, repaired=renderer.repairs(relayed))
        check_prompt(prepared.prompt)
        findings = () if renderer.options.audit == "off" else find_lost(renderer, prepared, chat.messages)
    tokens = len(prepared.prompt.token_ids)
    answer: Json = {"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}}
    if renderer.options.audit == "response":
        answer["audit"] = list(findings)
    return Counted(answer, tokens, findings)


def count_forms() -> Sequence[type[BaseModel]]:
    return (count_type(),)
