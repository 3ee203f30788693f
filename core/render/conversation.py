"""The conversation of a request: what may not be rendered is refused, and what a chat template reads is gathered.

The first step of a rendering. The order of the checks is that of vLLM's ``OnlineRenderer.preprocess_chat``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.errors import BadRequest, LongWork
from core.render.mistral import is_mistral
from core.render.renderer import Renderer
from core.upstream.conversations import check_media_options, has_non_text_content, merge_kwargs
from core.upstream.requests import chat_params

_UNTRUSTED_TEMPLATE = (
    "Chat template is passed with request, but --trust-request-chat-template is not set. "
    "Refused request with untrusted chat template."
)
_AUTO_OFF = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


@dataclass(frozen=True)
class Conversation:
    """A request that may be rendered.

    ``request`` is vLLM's, ``messages`` are those of a chat, ``tools`` are as chat
    templates see them (None: none are shown), ``params`` vLLM's ``ChatParams``
    with them (harmony, which no template writes, leaves them out), and
    ``arguments`` the template's arguments without them, which parsers read, too.
    ``repaired`` keeps what vLLM would lose on the way to the prompt (``ModelOptions.prompts``).
    """

    request: Any
    messages: Sequence[Any]
    tools: list[dict[str, Any]] | None
    params: Any
    arguments: dict[str, Any]
    repaired: bool = False


def read_chat(renderer: Renderer, request: Any, repaired: bool = False) -> Conversation:
    """The conversation of a chat request. A Mistral tokenizer may change the request in place.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    tokenizer: Any = renderer.tokenizer
    if is_mistral(tokenizer):
        tokenizer.adjust_chat_request(request)
    _check_tool_choice(renderer, request)
    hidden = request.tool_choice == "none" and renderer.options.exclude_tools_when_tool_choice_none
    tools = None if hidden else _tool_dicts(request, repaired)
    if not renderer.is_harmony:
        return read_conversation(renderer, request, request.messages, tools, repaired)
    if has_non_text_content(request.messages):
        # vLLM would leave such parts out and say nothing.
        raise BadRequest(f"{renderer.view.served_model_name} is not a multimodal model")
    return gather(renderer, request, request.messages, tools)


def with_messages(conversation: Conversation, messages: Sequence[Any], *, generate: bool) -> Conversation:
    """A conversation with other messages; with ``generate`` its text ends where the model is to go on."""
    arguments = {**conversation.params.chat_template_kwargs, "add_generation_prompt": generate}
    return replace(conversation, messages=messages, params=replace(conversation.params, chat_template_kwargs=arguments))


def read_tokenized(renderer: Renderer, request: Any) -> Conversation:
    """The conversation of a ``/tokenize`` request, whose tools are always shown.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    repaired = renderer.repairs(relayed=False)
    return read_conversation(renderer, request, request.messages, _tool_dicts(request, repaired), repaired)


def read_conversation(
    renderer: Renderer,
    request: Any,
    messages: Sequence[Any],
    tools: list[dict[str, Any]] | None,
    repaired: bool = False,
) -> Conversation:
    """The conversation of a request of any kind, with its messages and tools in the form of a chat's.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    check_template_trust(renderer, request)
    check_media_options(request)
    return gather(renderer, request, messages, tools, repaired)


def gather(
    renderer: Renderer,
    request: Any,
    messages: Sequence[Any],
    tools: list[dict[str, Any]] | None,
    repaired: bool = False,
) -> Conversation:
    """As :func:`read_conversation`, of a request that nothing is wrong with."""
    options = renderer.options
    params = chat_params(
        request, options.chat_template, options.chat_template_content_format, options.reasoning_effort_map
    )
    defaults = dict(renderer.template_kwargs)
    arguments = merge_kwargs(defaults, params.chat_template_kwargs)
    if not renderer.is_harmony:
        shown = {"tools": tools, "tokenize": is_mistral(renderer.tokenizer)}
        params = params.with_defaults(merge_kwargs(defaults, shown))
    return Conversation(request, messages, tools, params, arguments, repaired)


def _tool_dicts(request: Any, repaired: bool = False) -> list[dict[str, Any]] | None:
    """The tools as templates see them; repaired without ``strict``, which is for the decoder."""
    if request.tools is None:
        return None
    tools = [tool.model_dump() for tool in request.tools]
    return without_strict(tools) if repaired else tools


def without_strict(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools in a chat's form without ``strict``, as a repaired prompt shows them."""
    return [
        {**tool, "function": {name: value for name, value in tool["function"].items() if name != "strict"}}
        for tool in tools
    ]


def check_template_trust(renderer: Renderer, request: Any) -> None:
    """Refuse a template that comes with the request, unless the deployment trusts its clients.

    Raises:
        BadRequest: there is one.
    """
    named = (request.chat_template_kwargs or {}).get("chat_template")
    given = getattr(request, "chat_template", None)
    if not renderer.options.trust_request_chat_template and (given is not None or named is not None):
        raise BadRequest(_UNTRUSTED_TEMPLATE)
    if renderer.options.short and (given is not None or named is not None):
        raise LongWork


def _check_tool_choice(renderer: Renderer, request: Any) -> None:
    """Refuse a tool choice that only a tool parser could serve, where there is none."""
    choice = request.tool_choice
    has_parser = renderer.parser is not None and renderer.parser.parser_cls.tool_parser_cls is not None
    if has_parser or renderer.is_harmony or is_mistral(renderer.tokenizer) or choice in (None, "none"):
        return
    if choice == "auto":
        if not renderer.options.enable_auto_tool_choice:
            raise BadRequest(_AUTO_OFF)
        return
    named = f'"{choice}"' if isinstance(choice, str) else f'function "{choice.function.name}"'
    raise BadRequest(f"tool_choice={named} requires --tool-call-parser to be set")
