"""From a conversation to a prompt: message parsing, the chat template, and the parser's say on the request.

The order of the steps is that of vLLM's ``OnlineRenderer.preprocess_chat``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.renderers import merge_kwargs
from vllm.renderers.chat_utils import parse_chat_messages
from vllm.renderers.hf import resolve_chat_template_content_format, safe_apply_chat_template

from core.errors import BadRequest
from core.render.mistral import constrains_always, is_mistral, mistral_ids
from core.render.prompt import Prompt, check_ids, check_media_options, check_text, reused_ids, tokenize_text
from core.render.renderer import Renderer

if TYPE_CHECKING:
    from core.parsing.chat_parser import ChatParser

_UNTRUSTED_TEMPLATE = (
    "Chat template is passed with request, but --trust-request-chat-template is not set. "
    "Refused request with untrusted chat template."
)


def check_template_trust(renderer: Renderer, request: Any) -> None:
    """Refuse a template that comes with the request, unless the deployment trusts its clients.

    Raises:
        BadRequest: it does not.
    """
    named = (request.chat_template_kwargs or {}).get("chat_template")
    if not renderer.options.trust_request_chat_template and (request.chat_template is not None or named is not None):
        raise BadRequest(_UNTRUSTED_TEMPLATE)


def tool_dicts(tools: Any) -> list[dict[str, Any]] | None:
    """Tools as chat templates see them."""
    return None if tools is None else [tool.model_dump() for tool in tools]


def _chat_params(renderer: Renderer, request: Any) -> Any:
    """vLLM's ``ChatParams`` of the request: its template and the template's arguments."""
    return request.build_chat_params(renderer.options.chat_template, renderer.options.chat_template_content_format)


def template_kwargs(renderer: Renderer, request: Any) -> dict[str, Any]:
    """The arguments of the chat template that the request and the deployment give, without its tools."""
    given: dict[str, Any] = _chat_params(renderer, request).chat_template_kwargs
    return dict(merge_kwargs(dict(renderer.template_kwargs), given))


def conversation_prompt(
    renderer: Renderer, request: Any, tools: list[dict[str, Any]] | None, *, adjust: bool
) -> Prompt:
    """The prompt of a chat or tokenize request.

    With ``adjust`` the deployment's parser may change the request in place,
    as it must before sampling parameters are made from it: it turns tool
    choices into structured outputs and asks for special tokens in the output.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.render.refusal``.
    """
    check_media_options(request)
    tok_params = renderer.tokenize_params(request)
    chat_params = _chat_params(renderer, request).with_defaults(
        merge_kwargs(dict(renderer.template_kwargs), {"tools": tools, "tokenize": is_mistral(renderer.tokenizer)})
    )
    token_ids = reused_ids(request, renderer.view, renderer.tokenizer, request.messages)
    prompt = Prompt(token_ids) if token_ids is not None else _render(renderer, request, chat_params, tok_params)
    if adjust and renderer.parser is not None:
        _adjust(renderer, renderer.parser, request, chat_params, prompt)
    return prompt


def _render(renderer: Renderer, request: Any, chat_params: Any, tok_params: Any) -> Prompt:
    arguments = chat_params.get_apply_chat_template_kwargs()
    if is_mistral(renderer.tokenizer):
        ids = mistral_ids(renderer.tokenizer, renderer.view, request.messages, arguments)
        return check_ids(renderer.tokenizer, ids, tok_params)
    if renderer.encoder is not None:
        rendered = renderer.encoder.render(renderer.view, request.messages, arguments)
    else:
        content_format = resolve_chat_template_content_format(
            chat_template=chat_params.chat_template,
            tools=chat_params.chat_template_kwargs.get("tools"),
            given_format=chat_params.chat_template_content_format,
            tokenizer=renderer.templates,
            model_config=renderer.view,
        )
        conversation, _, _ = parse_chat_messages(request.messages, renderer.view, content_format)
        rendered = safe_apply_chat_template(renderer.view, renderer.templates, conversation, **arguments)
    if isinstance(rendered, str):
        return tokenize_text(renderer.tokenizer, check_text(renderer.tokenizer, rendered, tok_params), tok_params)
    return check_ids(renderer.tokenizer, rendered, tok_params)


def _adjust(renderer: Renderer, parser: ChatParser, request: Any, chat_params: Any, prompt: Prompt) -> None:
    kind = parser.parser_cls
    sees_all = kind.always_adjust_request or kind.reasoning_parser_cls is not None
    if request.tool_choice == "none" and not sees_all and not constrains_always(renderer.tokenizer, kind):
        return
    live = build_parser(parser, request, chat_params.chat_template_kwargs)
    live.set_prompt_token_ids(prompt.token_ids)
    live.adjust_request(request=request)


def build_parser(parser: ChatParser, request: Any, arguments: dict[str, Any]) -> Any:
    """A fresh vLLM parser for the request; ``arguments`` are those of the chat template."""
    return parser.parser_cls(
        parser.tokenizer, request.tools, chat_template_kwargs=arguments, model_config=parser.model_config
    )
