"""A prompt explained: its tokens, and what of the request is not in it."""

from __future__ import annotations

from typing import Any

from core.errors import LongWork
from core.explain.tokens import token_texts
from core.json import Json
from core.model import Model
from core.render.chat import prepare_chat
from core.render.prompt import check_prompt
from core.render.prompt_audit import lost_words
from core.upstream.refusals import refusals
from core.upstream.requests import validate_chat

MOST_SHOWN = 4096
"""How many tokens of a prompt are shown; the rest is counted."""
REQUEST: Json = {
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                },
            },
        }
    ],
}
"""A chat request to begin with: it has a tool, so that a parser of calls is asked."""


def explain_prompt(model: Model, body: Any) -> tuple[Json, list[int]]:
    """The prompt of a chat request, and its ids.

    ``tokens`` (the first of them) have an ``id``, its ``text`` and whether it is ``special``, ``count`` is that of all,
    ``lost`` are words of the request that are not in the prompt.

    Raises:
        ModelNotFound, BadRequest, SchemaError: as render does.
    """
    if model.options.short:
        raise LongWork
    request = validate_chat(body)
    model.resolve_name(request.model)
    with refusals():
        chat = prepare_chat(model.renderer, request, repaired=model.renderer.repairs(relayed=False))
        check_prompt(chat.prompt)
    ids = chat.prompt.token_ids
    special = model.tokenizer.special_ids
    shown = ids[:MOST_SHOWN]
    tokens = [
        {"id": number, "text": text, "special": number in special}
        for number, text in zip(shown, token_texts(model.tokenizer, shown), strict=True)
    ]
    whole = chat.prompt.text if chat.prompt.text is not None else model.tokenizer.decode(ids)
    lost = lost_words(request.messages, chat.conversation.tools, whole)
    return {"tokens": tokens, "count": len(ids), "lost": lost}, ids
