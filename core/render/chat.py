"""``/v1/chat/completions/render``: a chat request into the request for the engine."""

from __future__ import annotations

from typing import Any

from core.errors import BadRequest
from core.model import Model
from core.render.conversation import (
    build_parser,
    check_template_trust,
    conversation_prompt,
    template_kwargs,
    tool_dicts,
)
from core.render.generate_request import generate_request, parse_context
from core.render.mistral import is_mistral
from core.render.prompt import Prompt
from core.render.refusal import refusals
from core.render.renderer import Renderer
from core.render.request import parse_chat
from core.render.sampling import resolve_sampling

BEAM_SEARCH = "Beam search is not supported by the render endpoint"
NO_TOKENS = "No token_ids rendered"
_AUTO_OFF = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


def render_chat(model: Model, body: Any, request_id: str | None = None) -> dict[str, Any]:
    """The ``GenerateRequest`` of a chat request.

    ``body`` is the decoded JSON of the request and stays as it is.
    ``request_id`` wins over the request's own.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    request = parse_chat(body)
    model.resolve_name(request.model)
    if request.use_beam_search:
        raise BadRequest(BEAM_SEARCH)
    renderer = model.renderer
    with refusals():
        prompt = chat_prompt(renderer, request)
        if not prompt.token_ids:
            raise BadRequest(NO_TOKENS)
        completion = request.max_completion_tokens
        requested = completion if completion is not None else request.max_tokens
        sampling = resolve_sampling(request, requested, len(prompt.token_ids), renderer.defaults, renderer.limits)
        arguments = template_kwargs(renderer, request)
        parser = _reasoning_parser(renderer, request, arguments)
        return generate_request(
            request,
            f"chatcmpl-{request.request_id if request_id is None else request_id}",
            prompt,
            sampling,
            reasoning_ended=request.resolve_reasoning_ended(parser, prompt.token_ids),
            reasoning_template_kwargs=None if parser is None else arguments,
            parse_context=parse_context(request, {} if renderer.is_harmony else arguments),
        )


def chat_prompt(renderer: Renderer, request: Any) -> Prompt:
    """The prompt of a chat request that is validated; the request may be changed in place.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.render.refusal``.
    """
    tokenizer: Any = renderer.tokenizer
    if is_mistral(tokenizer):
        tokenizer.adjust_chat_request(request)
    _check_tool_choice(renderer, request)
    hidden = request.tool_choice == "none" and renderer.options.exclude_tools_when_tool_choice_none
    tools = None if hidden else tool_dicts(request.tools)
    if renderer.is_harmony:
        from core.render.harmony import harmony_prompt

        return harmony_prompt(renderer, request, with_tools=tools is not None)
    check_template_trust(renderer, request)
    return conversation_prompt(renderer, request, tools, adjust=True)


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


def _reasoning_parser(renderer: Renderer, request: Any, arguments: dict[str, Any]) -> Any:
    """A parser that can tell whether a prompt ends inside reasoning; None when the deployment has none."""
    if renderer.parser is None or renderer.parser.parser_cls.reasoning_parser_cls is None:
        return None
    return build_parser(renderer.parser, request, arguments)
