"""``/v1/chat/completions/render``: a chat request into the request for the engine.

One pass: the conversation is read, written out, encoded; the parser has its
say; sampling parameters are made; the request for the engine is assembled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.model import Model
from core.render.conversation import Conversation, read_chat
from core.render.generate_request import Rendered, generate_request, parse_context
from core.render.media import AS_ASKED, ImageHandling
from core.render.prompt import Prompt, TurnEncoder, check_prompt, encode_conversation
from core.render.prompt_audit import audit_prompt
from core.render.renderer import Renderer
from core.render.request_parser import RequestParser
from core.render.sampling import check_beam_search, resolve_sampling
from core.upstream.refusals import refusals
from core.upstream.requests import validate_chat

if TYPE_CHECKING:
    from core.turns.continuation import Continuation
    from core.turns.door import Door

_CONTINUE = "continue_from"


def render_chat(
    model: Model, body: Any, request_id: str | None = None, images: ImageHandling = AS_ASKED
) -> dict[str, Any]:
    """The ``GenerateRequest`` of a chat request, and with ``continue_from`` what became of the last turn.

    ``body`` is the decoded JSON of the request and stays as it is.
    ``request_id`` wins over the request's own.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    body, turn = take_turn(model, body)
    return render_valid_chat(model, validate_chat(body), request_id, images, turn)


def take_turn(model: Model, body: Any, door: Callable[[], Door] | None = None) -> tuple[Any, Continuation | None]:
    """A request's body without ``continue_from``, and what is to continue, where the request asks.

    ``door`` gives that of its dialect, where it is not read as a chat.

    Raises:
        BadRequest, SchemaError: the field is not of its form, or does not match.
    """
    if not isinstance(body, Mapping) or body.get(_CONTINUE) is None:
        return body, None
    from core.turns.begin import begin  # late: few requests continue, and a plain start loads nothing of it

    return begin(model, body) if door is None else begin(model, body, door=door())


def render_valid_chat(
    model: Model,
    request: Any,
    request_id: str | None = None,
    images: ImageHandling = AS_ASKED,
    turn: Continuation | None = None,
) -> dict[str, Any]:
    """The ``GenerateRequest`` of vLLM's ``ChatCompletionRequest``, whose own fields a parser may set.

    Raises:
        ModelNotFound, BadRequest: in the order in which vLLM checks.
    """
    written, _ = render_counted_chat(model, request, request_id, images, turn)
    if turn is not None:
        written.update(turn.result.fields())
    return written


def render_counted_chat(
    model: Model,
    request: Any,
    request_id: str | None = None,
    images: ImageHandling = AS_ASKED,
    turn: Continuation | None = None,
    *,
    relayed: bool = False,
) -> tuple[Rendered, int]:
    """As :func:`render_valid_chat`; and how many tokens the prompt has, those of images among them.

    ``turn`` is the last turn of the conversation, and has what became of it afterwards.
    ``relayed`` says that it is the relay's own request for its engine.

    Raises:
        ModelNotFound, BadRequest: in the order in which vLLM checks.
    """
    model.resolve_name(request.model)
    check_beam_search(request)
    renderer = model.renderer
    with refusals():
        chat = prepare_chat(renderer, request, images, turn, renderer.repairs(relayed))
        check_prompt(chat.prompt)
        completion = request.max_completion_tokens
        requested = completion if completion is not None else request.max_tokens
        sampling = resolve_sampling(
            request,
            requested,
            len(chat.prompt.token_ids),
            renderer.defaults,
            renderer.limits,
            request.truncate_prompt_tokens,
        )
        arguments = chat.conversation.arguments
        written = generate_request(
            request,
            f"chatcmpl-{request.request_id if request_id is None else request_id}",
            chat.prompt,
            sampling,
            reasoning_ended=chat.parser.reasoning_ended(chat.prompt.token_ids),
            reasoning_template_kwargs=arguments if chat.parser.reads_reasoning else None,
            parse_context=parse_context(request, {} if renderer.is_harmony else arguments),
            images=images,
        )
        note_lost(renderer, chat, request.messages, sampling.params, written, relayed=relayed)
        return written, len(chat.prompt.token_ids)


def note_lost(
    renderer: Renderer,
    chat: PreparedChat,
    messages: Sequence[Any],
    params: Mapping[str, Any],
    written: Rendered,
    *,
    relayed: bool,
) -> None:
    """Note on a rendered request what the audit finds of it: for the log, and as a field where that is asked for."""
    if renderer.options.audit == "off":
        return
    written.findings = find_lost(renderer, chat, messages, params)
    if renderer.options.audit == "response" and not relayed:
        written["audit"] = list(written.findings)


def find_lost(
    renderer: Renderer, chat: PreparedChat, messages: Sequence[Any], params: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """What the audit finds of a prompt that says ``messages``, in the order of its kinds.

    Without the sampling parameters it is only the prompt that is looked at.
    """
    prompt, conversation = chat.prompt, chat.conversation
    text = renderer.tokenizer.decode(prompt.token_ids) if prompt.text is None else prompt.text
    return tuple(audit_prompt(conversation.request, messages, conversation.tools, text, params))


@dataclass(frozen=True)
class PreparedChat:
    """A chat request with its prompt, after the parser had its say on it."""

    conversation: Conversation
    prompt: Prompt
    parser: RequestParser


def prepare_chat(
    renderer: Renderer,
    request: Any,
    images: ImageHandling = AS_ASKED,
    turn: TurnEncoder | None = None,
    repaired: bool = False,
) -> PreparedChat:
    """The prompt of a validated chat request, which the parser may change in place.

    With ``repaired`` it keeps what vLLM would lose (``ModelOptions.prompts``).

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    conversation = read_chat(renderer, request, repaired)
    parser = RequestParser(renderer.parser, conversation)
    if renderer.is_harmony:
        parser.adjust(None)
        prompt = encode_conversation(renderer, conversation)
    else:
        prompt = encode_conversation(renderer, conversation, images, turn)
        parser.adjust(prompt.token_ids)
    return PreparedChat(conversation, prompt, parser)
