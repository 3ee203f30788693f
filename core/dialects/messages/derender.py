"""Derendering messages: what an engine answered as a ``Message``, or chunk by chunk as the events of its stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from core.bounds import check_count, check_prompt_ids, check_responses
from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.derender.chat import read_chat, turn_states
from core.derender.chat_stream import open_chat, open_turn
from core.dialects.messages.answer import message, transfers
from core.dialects.messages.conversation import read_messages, shaping_fields
from core.dialects.messages.errors import error_body
from core.dialects.messages.events import MessageEvents, Written
from core.dialects.messages.usage import message_usage
from core.errors import BadRequest, EngineGaveUp, InvalidState
from core.json import Json
from core.model import Model
from core.parsing.known_request import KnownRequest, known_request
from core.protocol.derender import OneShotBody, StreamBody
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.protocol.lists import PromptIds
from core.protocol.openai import random_id
from core.protocol.output_options import NO_REQUEST, chat_options
from core.state.call import StreamCall, open_call
from core.state.carried import carry
from core.state.context import reduce_chat

_PLACE = "body.messages_request"
_FAILED = "error"  # the finish reason of such an answer
_STATE = "stream_state.written"
MESSAGES_REQUEST_REQUIRED = (
    "messages_request is required when a tool or reasoning parser is configured because plain detokenization "
    "would leak raw parser markup into content."
)


class DerenderMessagesRequest(OneShotBody):
    """One-shot Messages: the engine's whole answer with the request that it answers."""

    generate_response: GenerateResponse
    prompt_tokens: int | None = None
    prompt_token_ids: PromptIds | None = None
    messages_request: Json | None = None

    @property
    def answers(self) -> list[GenerateResponse]:
        return [self.generate_response]


class DerenderMessagesStreamRequest(StreamBody):
    """One chunk of a Messages stream."""

    messages_request: Json | None = None


def bodies() -> tuple[type[OneShotBody], type[StreamBody]]:
    return DerenderMessagesRequest, DerenderMessagesStreamRequest


def derender(model: Model, body: DerenderMessagesRequest, report: Report = unreported) -> Json:
    """The ``Message`` of an engine's answer. ``report`` is told what the audit found.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order of the chat endpoint.
    """
    name = model.resolve_name(body.model)
    source = body.generate_response
    check_responses([source], model.limits)
    check_prompt_ids(body.prompt_token_ids, model.limits)
    check_count(body.prompt_tokens, "prompt_tokens")
    if body.messages_request is None:
        _require_request(model)
        chat, options = None, NO_REQUEST
    else:
        chat = read_messages(model, body.messages_request, _PLACE)
        options = chat_options(chat)
    if len(source.choices) != 1:
        raise BadRequest(f"a message is one choice; generate_response has {len(source.choices)}", "generate_response")
    # A parser must see how the prompt ends, whoever tells it.
    prompt_ids = source.prompt_token_ids if source.prompt_token_ids is not None else body.prompt_token_ids
    answered = source.model_copy(update={"prompt_token_ids": prompt_ids})
    if source.choices[0].finish_reason == _FAILED:
        raise EngineGaveUp()
    (output,) = read_chat(model, answered, options, chat, body.prompt_token_ids)
    report_findings([output], report)
    prompt_tokens = body.prompt_tokens if body.prompt_tokens is not None else len(prompt_ids or ())
    usage = message_usage(prompt_tokens, len(output.source.token_ids or ()), source.usage)
    written = {**message(output, source.request_id or random_id(), name, usage), **transfers(source)}
    (states,) = turn_states(model, body, source, prompt_ids) or [{}]
    return {**written, **states}


def derender_stream(model: Model, body: DerenderMessagesStreamRequest, report: Report = unreported) -> Json:
    """``{"events", "stream_state"}`` for one or more chunks of a Messages stream.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order of the chat endpoint.
    """
    known, request = None, None
    if body.messages_request is not None:
        known = _known(model, body.messages_request)
        request = _shaping(known, whole=body.carry_context)
    call = open_call(model, body, request, reduce_chat)
    if call.request is None:
        _require_request(model)
    written = _read_written(call)
    stream, _, binding = open_chat(model, call, known)
    writer = _EventWriter(MessageEvents(binding.request_id, call.model_name, written))
    turn = open_turn(model, body, call)
    chunks, state = carry(call, binding, stream, writer, model.signer, report, turn)
    answer = {"events": [event for events in chunks for event in events], "stream_state": state}
    return answer if turn is None else {**answer, **turn.answer()}


def _known(model: Model, request: Json) -> KnownRequest:
    """The request of a stream, validated where it is not known from the chunk before."""
    if model.chat_parser is None:
        return KnownRequest(read_messages(model, request, _PLACE), b"")
    return known_request(model.chat_parser, "messages", request, lambda: read_messages(model, request, _PLACE))


def _shaping(known: KnownRequest, *, whole: bool) -> Json:
    """The request in the form of a chat's, as far as it is carried, or ties a stream to it."""
    if whole:
        return shaping_fields(known.chat_request, whole=True)
    if known.made is None:
        known.made = shaping_fields(known.chat_request, whole=False)
    tied: Json = known.made
    return tied


def _require_request(model: Model) -> None:
    if model.chat_parser is not None:
        raise BadRequest(MESSAGES_REQUEST_REQUIRED)


def _read_written(call: StreamCall) -> Written:
    state = call.state
    if state is None:
        return Written(input_tokens=call.count_prompt())
    if state.written is None:
        raise InvalidState("it is not the state of a Messages stream", _STATE)
    try:
        return Written.model_validate(state.written)
    except ValidationError as exc:
        raise InvalidState("written does not add up", _STATE) from exc


class _EventWriter:
    """Writes the events of engine chunks; see :class:`~core.state.carried.ChunkWriter`.

    The message ends with the chunk that ends its choice. Usage that an engine
    tells later says nothing new but what was cached, and is not waited for.
    """

    def __init__(self, events: MessageEvents) -> None:
        self._events = events

    def write(self, chunk: GenerateChunk, outputs: Sequence[ChoiceOutput]) -> list[Json]:
        return list(self._write(chunk, outputs))

    def _write(self, chunk: GenerateChunk, outputs: Sequence[ChoiceOutput]) -> Iterator[Json]:
        written = self._events.written
        for output in outputs:
            if written.ended:
                raise InvalidState("the message is over", _STATE)
            if not written.started:
                yield self._events.start(message_usage(written.input_tokens, 0))
            written.output_tokens += len(output.source.token_ids or ())
            if output.finish_reason == _FAILED:
                yield from self._events.fail(error_body(EngineGaveUp()))
                return
            yield from self._events.say(output)
            if output.finish_reason is not None:
                usage = message_usage(written.input_tokens, written.output_tokens, chunk.usage)
                yield from self._events.finish(output, usage)

    def fields(self) -> dict[str, Any]:
        return {"written": self._events.written.model_dump(exclude_defaults=True)}
