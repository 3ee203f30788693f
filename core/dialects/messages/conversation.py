"""A Messages request as the chat request that it stands for.

The conversion is vLLM's. Two things in it depend on the deployment's chat
template, and are found out by rendering small conversations when a request
first needs to know: whether system messages may stand inside a conversation,
and what asks for no thinking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from core.model import Model
from core.protocol.schema_error import BODY
from core.render.chat import prepare_chat
from core.render.mistral import is_mistral
from core.render.renderer import Renderer
from core.state.context import KEPT
from core.upstream.conversations import choose_template
from core.upstream.messages import EFFORTS, system_comes_first, to_chat_request, validate_messages
from core.upstream.refusals import refusals
from core.upstream.requests import chat_type

_NO_THINKING = "none"
_LITTLE_THINKING = "low"


def chat_request(model: Model, request: Any) -> Any:
    """vLLM's ``ChatCompletionRequest`` for its request of Messages or of counting.

    Raises:
        BadRequest: the request holds what cannot be converted.
    """
    renderer = model.renderer
    inline = any(message.role == "system" for message in request.messages)
    unthinking = request.thinking is not None and request.thinking.type == "disabled"
    with refusals():
        chat = to_chat_request(
            request,
            merge_inline_system=inline and puts_system_first(renderer),
            disabled_thinking_effort=effort_of_no_thinking(renderer) if unthinking else _NO_THINKING,
        )
        # As vLLM's render endpoint; a request to be counted has none.
        chat.mm_payload = getattr(request, "mm_payload", chat.mm_payload)
        return chat


def read_messages(model: Model, body: Any, place: str = BODY) -> Any:
    """The ``ChatCompletionRequest`` of a Messages request's JSON, which stands at ``place`` in the call's body.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return chat_request(model, validate_messages(body, place))


def shaping_fields(chat: Any, *, whole: bool) -> dict[str, Any]:
    """The fields of a ``ChatCompletionRequest`` that shape its output, as JSON.

    ``whole`` is for a request that is carried; otherwise only what ties a stream to it is there.
    """
    fields = {"tools", "tool_choice", "stop"} | ({*KEPT, "messages"} if whole else set())
    written: dict[str, Any] = chat.model_dump(mode="json", include=fields, exclude_unset=True, exclude_none=True)
    return written


def puts_system_first(renderer: Renderer) -> bool:
    """Whether the deployment's template, with tools or without, refuses system messages after the first."""
    found = _found(renderer)
    if found.system_first is None:
        offers: tuple[list[Any] | None, ...] = (None, [])
        found.system_first = any(system_comes_first(_template(renderer, tools)) for tools in offers)
    return found.system_first


def effort_of_no_thinking(renderer: Renderer) -> str:
    """What asks the model not to think: "none", or "low" where the template refuses or ignores it."""
    found = _found(renderer)
    if found.effort is None:
        without = _hello(renderer, _NO_THINKING)
        ignored = without is None or any(_hello(renderer, effort) == without for effort in EFFORTS)
        found.effort = _LITTLE_THINKING if ignored else _NO_THINKING
    return found.effort


def _template(renderer: Renderer, tools: list[Any] | None) -> str | None:
    given = renderer.options.chat_template
    if renderer.encoder is not None or is_mistral(renderer.tokenizer):
        return given  # none of the model's own is applied
    return choose_template(renderer.templates, given, tools, renderer.view)


def _hello(renderer: Renderer, effort: str) -> list[int] | None:
    """The prompt of a greeting at some effort; None where the template refuses it."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort}
    try:
        return prepare_chat(renderer, chat_type().model_validate(body)).prompt.token_ids
    except Exception:
        return None  # templates are anyone's, and may raise anything


@dataclass
class _Found:
    """What was found out of a deployment's template; None: nobody has asked yet."""

    system_first: bool | None = None
    effort: str | None = None


_FOUND: WeakKeyDictionary[Renderer, _Found] = WeakKeyDictionary()


def _found(renderer: Renderer) -> _Found:
    return _FOUND.setdefault(renderer, _Found())
