"""``/tokenize``: the ids of a text or of a conversation."""

from __future__ import annotations

from typing import Any

from core.model import Model
from core.render.chat import prepare_chat
from core.render.completions import completion_prompts
from core.render.conversation import read_tokenized
from core.render.prompt import encode_conversation
from core.render.renderer import Renderer
from core.upstream.refusals import refusals
from core.upstream.requests import validate_tokenize


def tokenize(model: Model, body: Any) -> dict[str, Any]:
    """The ids of a ``prompt``, or of ``messages`` through the chat template; with their token texts when asked for.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    request = validate_tokenize(body)
    model.resolve_name(request.model)
    renderer = model.renderer
    with refusals():
        token_ids = _token_ids(renderer, request)
        return {
            "count": len(token_ids),
            "max_model_len": renderer.limits.max_model_len,
            "tokens": token_ids,
            "token_strs": renderer.tokenizer.convert_ids_to_tokens(token_ids) if request.return_token_strs else None,
        }


def _token_ids(renderer: Renderer, request: Any) -> list[int]:
    if not hasattr(request, "messages"):
        return completion_prompts(renderer, request, request.prompt)[0].token_ids
    if renderer.is_harmony:
        return prepare_chat(renderer, request.to_chat_completion_request()).prompt.token_ids
    return encode_conversation(renderer, read_tokenized(renderer, request)).token_ids
