"""The prompt of a Responses request. The order of the checks is that of vLLM's ``OnlineRenderer.render_responses``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.dialects.responses.errors import InvalidRequest
from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.render.chat import PreparedChat, note_lost
from core.render.conversation import Conversation, check_template_trust, gather, read_conversation, without_strict
from core.render.generate_request import Rendered, generate_request
from core.render.media import AS_ASKED, ImageHandling
from core.render.prompt import Prompt, TurnEncoder, check_ids, check_prompt, encode_conversation
from core.render.renderer import Renderer
from core.render.request_parser import RequestParser
from core.render.sampling import Sampling, resolve_sampling
from core.upstream.conversations import count_history_tool_calls, has_non_text_content
from core.upstream.responses import chat_messages, tool_dicts
from core.upstream.responses_chat import chat_choice

# What vLLM cuts a prompt to where the request lets it: to what fits.
_FITTING = -1


@dataclass(frozen=True)
class RenderedResponse:
    """A request for the engine, and the sampling parameters that the answer's envelope tells."""

    body: Rendered
    sampling: Sampling
    prompt_tokens: int
    grammar_from_parser: bool


def render_response(
    model: Model,
    request: Any,
    images: ImageHandling = AS_ASKED,
    turn: TurnEncoder | None = None,
    *,
    relayed: bool = False,
) -> RenderedResponse:
    """Render vLLM's ``ResponsesRequest``, whose own fields a parser may set. ``turn`` is the conversation's last.

    ``relayed`` says that it is the relay's own request for its engine.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    renderer = model.renderer
    prepared = prepare_response(renderer, request, images, turn, renderer.repairs(relayed))
    check_prompt(prepared.prompt)
    length = len(prepared.prompt.token_ids)
    sampling = response_sampling(renderer, request, length)
    arguments = prepared.conversation.arguments
    body = generate_request(
        request,
        request.request_id,
        prepared.prompt,
        sampling,
        reasoning_template_kwargs=arguments if prepared.parser.reads_reasoning else None,
        parse_context=_parse_context(renderer, request, prepared.conversation),
        images=images,
    )
    note_lost(renderer, prepared, _messages(renderer, prepared), sampling.params, body, relayed=relayed)
    return RenderedResponse(body, sampling, length, bool(getattr(request, "_grammar_from_parser", False)))


def response_sampling(renderer: Renderer, request: Any, prompt_length: int) -> Sampling:
    """The sampling parameters of a request with a prompt of so many tokens.

    Raises:
        Exception: a value is out of its range, or nothing is left for the output.
    """
    return resolve_sampling(
        request,
        request.max_output_tokens,
        prompt_length,
        renderer.defaults,
        renderer.limits,
        None if request.truncation == "disabled" else _FITTING,
    )


def adjusted(model: Model, request: Any) -> Any:
    """A request as its parser leaves it when it is rendered, which is what its responses tell of it.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    if model.chat_parser is None or request.text is None or request.text.format is None:
        return request  # nothing that a response tells would change
    copy = request.model_copy()
    parser = RequestParser(model.chat_parser, gather(model.renderer, copy, (), None))
    parser.adjust(None if model.config.is_harmony else ())
    return copy


def prepare_response(
    renderer: Renderer,
    request: Any,
    images: ImageHandling = AS_ASKED,
    turn: TurnEncoder | None = None,
    repaired: bool = False,
) -> PreparedChat:
    """The prompt of a request, which the parser may change in place.

    With ``repaired`` it keeps what vLLM would lose (``ModelOptions.prompts``).

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    check_template_trust(renderer, request)
    if renderer.is_harmony:
        return _prepare_harmony(renderer, request)
    tools = tool_dicts(request, exclude_unwanted=renderer.options.exclude_tools_when_tool_choice_none)
    if repaired and tools is not None:
        tools = without_strict(tools)
    conversation = read_conversation(renderer, request, chat_messages(request), tools, repaired)
    parser = RequestParser(renderer.parser, conversation)
    prompt = encode_conversation(renderer, conversation, images, turn)
    parser.adjust(prompt.token_ids)
    return PreparedChat(conversation, prompt, parser)


def _prepare_harmony(renderer: Renderer, request: Any) -> PreparedChat:
    # Late: only gpt-oss models load the harmony package.
    from core.upstream.responses_harmony import input_messages, message_ids, system_messages

    conversation = gather(renderer, request, (), None)
    parser = RequestParser(renderer.parser, conversation)
    parser.adjust(None)
    if not isinstance(request.input, str) and has_non_text_content(chat_like(request.input)):
        # vLLM would leave such parts out and say nothing.
        raise BadRequest(f"{renderer.view.served_model_name} is not a multimodal model")
    before, given = system_messages(request, renderer.options.system_start_date)
    try:
        messages = [*before, *input_messages(request, given)]
    except ValueError as exc:
        raise InvalidRequest(str(exc), "input") from exc
    ids = message_ids(messages)
    prompt: Prompt = check_ids(renderer.tokenizer, ids, renderer.tokenize_params(request))
    return PreparedChat(conversation, prompt, parser)


def _messages(renderer: Renderer, prepared: PreparedChat) -> Sequence[Any]:
    """What a prompt has to say, as messages of a chat; of gpt-oss models what the input says as it stands."""
    if not renderer.is_harmony:
        return prepared.conversation.messages
    request = prepared.conversation.request
    given = [{"content": request.input}] if isinstance(request.input, str) else request.input
    said = [item for item in given if isinstance(item, dict) and item.get("type", "message") == "message"]
    return [{"content": request.instructions}, *said]


def chat_like(items: Any) -> list[Any]:
    """The items that have content, for a look at its parts."""
    return [item for item in items if isinstance(item, dict) and isinstance(item.get("content"), list)]


def _parse_context(renderer: Renderer, request: Any, conversation: Conversation) -> Json:
    """What an engine that parses by itself needs of a request, in the form of a chat's: vLLM's ``ParseContext``."""
    return {
        "tools": tool_dicts(request, exclude_unwanted=False),
        "tool_choice": chat_choice(request.tool_choice),
        "parallel_tool_calls": request.parallel_tool_calls,
        "include_reasoning": request.include_reasoning,
        "chat_template_kwargs": {} if renderer.is_harmony else conversation.arguments,
        "history_tool_call_cnt": count_history_tool_calls(request),
    }
