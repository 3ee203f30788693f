"""Derendering responses: what an engine answered as a ``Response``, or chunk by chunk as the events of its stream."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from core.bounds import check_count, check_prompt_ids, check_responses
from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.derender.chat import read_chat, turn_states
from core.derender.chat_stream import open_chat, open_turn
from core.dialects.responses.answer import envelope_of, response
from core.dialects.responses.events import Envelope, ResponseEvents, Written
from core.dialects.responses.prompt import adjusted, response_sampling
from core.dialects.responses.request import read_request, reduce_response
from core.dialects.responses.said import Said
from core.dialects.responses.usage import response_usage
from core.errors import BadRequest, EngineGaveUp, InvalidState
from core.json import Json
from core.model import Model
from core.protocol.derender import OneShotBody, StreamBody
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.protocol.lists import PromptIds
from core.render.sampling import Sampling
from core.state.call import StreamCall, open_call
from core.state.carried import CarriedStream, carry
from core.upstream.refusals import refusals
from core.upstream.responses_events import tool_names

_FAILED = "error"  # the finish reason of such an answer
_STATE = "stream_state.written"
RESPONSES_REQUEST_REQUIRED = "responses_request is required: a response says again what its request asked for."


class DerenderResponsesRequest(OneShotBody):
    """One-shot Responses: the engine's whole answer with the request that it answers."""

    generate_response: GenerateResponse
    prompt_tokens: int | None = None
    prompt_token_ids: PromptIds | None = None
    responses_request: Json | None = None

    @property
    def answers(self) -> list[GenerateResponse]:
        return [self.generate_response]


class DerenderResponsesStreamRequest(StreamBody):
    """One chunk of a Responses stream. With ``carry_output`` the state has what the last events say again."""

    responses_request: Json | None = None
    carry_output: bool = True


def bodies() -> tuple[type[OneShotBody], type[StreamBody]]:
    return DerenderResponsesRequest, DerenderResponsesStreamRequest


class _Asked:
    """A request and what its responses tell of it; ``prompt_tokens`` are those of the prompt."""

    def __init__(self, model: Model, request: Any, prompt_tokens: int) -> None:
        self._model = model
        self._request = request
        self._prompt_tokens = prompt_tokens

    @cached_property
    def sampling(self) -> Sampling:
        return response_sampling(self._model.renderer, self._request, self._prompt_tokens)

    def envelope(self, response_id: str, model_name: str, **passed: Any) -> Envelope:
        return envelope_of(
            lambda: adjusted(self._model, self._request), lambda: self.sampling, response_id, model_name, **passed
        )


def derender(model: Model, body: DerenderResponsesRequest, report: Report = unreported) -> Json:
    """The ``Response`` of an engine's answer. ``report`` is told what the audit found.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order of the chat endpoint.
    """
    name = model.resolve_name(body.model)
    source = body.generate_response
    check_responses([source], model.limits)
    check_prompt_ids(body.prompt_token_ids, model.limits)
    check_count(body.prompt_tokens, "prompt_tokens")
    if body.responses_request is None:
        raise BadRequest(RESPONSES_REQUEST_REQUIRED)
    known = read_request(model, body.responses_request)
    request, options = known.chat_request, known.options
    if len(source.choices) != 1:
        raise BadRequest(f"a response is one choice; generate_response has {len(source.choices)}", "generate_response")
    # A parser must see how the prompt ends, whoever tells it.
    prompt_ids = source.prompt_token_ids if source.prompt_token_ids is not None else body.prompt_token_ids
    answered = source.model_copy(update={"prompt_token_ids": prompt_ids})
    if source.choices[0].finish_reason == _FAILED:
        raise EngineGaveUp()
    (output,) = read_chat(model, answered, options, request, body.prompt_token_ids, count_reasoning=True)
    report_findings([output], report)
    prompt_tokens = body.prompt_tokens if body.prompt_tokens is not None else len(prompt_ids or ())
    usage = response_usage(
        prompt_tokens,
        len(output.source.token_ids or ()),
        output.reasoning_tokens or 0,
        source.usage,
        by_turn=model.config.is_harmony,
    )
    write = _Asked(model, request, prompt_tokens).envelope(
        source.request_id or request.request_id,
        name,
        kv_transfer_params=source.kv_transfer_params,
        ec_transfer_params=source.ec_transfer_params,
    )
    with refusals():
        written = response(model, request, output, write, source.created or int(time.time()), usage)
    (states,) = turn_states(model, body, source, prompt_ids) or [{}]
    return {**written, **states}


def derender_stream(model: Model, body: DerenderResponsesStreamRequest, report: Report = unreported) -> Json:
    """``{"events", "stream_state"}`` for one or more chunks of a Responses stream.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order of the chat endpoint.
    """
    call = open_call(model, body, body.responses_request, reduce_response)
    if call.request is None:
        raise BadRequest(RESPONSES_REQUEST_REQUIRED)
    known = read_request(model, call.request)
    request = known.chat_request
    written = _read_written(call, body.carry_output)
    stream, _, binding = open_chat(model, call, known)
    asked = _Asked(model, request, written.input_tokens)
    write = asked.envelope(binding.request_id, call.model_name)
    if known.made is None:
        known.made = tool_names(request)
    events = ResponseEvents(request, write, written, is_harmony=model.config.is_harmony, names=known.made)
    writer = _EventWriter(events, stream)
    turn = open_turn(model, body, call)
    with refusals():
        chunks, state = carry(call, binding, stream, writer, model.signer, report, turn)
    answer = {"events": [event for events in chunks for event in events], "stream_state": state}
    return answer if turn is None else {**answer, **turn.answer()}


def _read_written(call: StreamCall, carry_output: bool) -> Written:
    state = call.state
    if state is None:
        said = Said() if carry_output else None
        return Written(input_tokens=call.count_prompt(), created=int(time.time()), said=said)
    if state.written is None:
        raise InvalidState("it is not the state of a Responses stream", _STATE)
    try:
        return Written.model_validate(state.written)
    except ValidationError as exc:
        raise InvalidState("written does not add up", _STATE) from exc


class _EventWriter:
    """Writes the events of engine chunks; see :class:`~core.state.carried.ChunkWriter`.

    The response ends with the chunk that ends its choice. Usage that an engine
    tells later says nothing new but what was cached, and is not waited for.
    """

    def __init__(self, events: ResponseEvents, stream: CarriedStream) -> None:
        self._events = events
        self._stream = stream
        self._counts = stream.counts_ids
        self._ids: list[int] = []

    def write(self, chunk: GenerateChunk, outputs: Sequence[ChoiceOutput]) -> list[Json]:
        return list(self._write(chunk, outputs))

    def _write(self, chunk: GenerateChunk, outputs: Sequence[ChoiceOutput]) -> Iterator[Json]:
        events, written = self._events, self._events.written
        for output in outputs:
            if written.ended:
                raise InvalidState("the response is over", _STATE)
            if not written.started:
                yield from events.start()
            ids = output.source.token_ids or []
            written.output_tokens += len(ids)
            if self._counts:
                self._ids += ids
            if output.finish_reason == _FAILED:
                yield events.fail(EngineGaveUp())
                return
            yield from events.say(output)
            if output.finish_reason is not None:
                all_ids = events.counted(self._ids) if self._counts else ()
                reasoning = self._stream.count_reasoning(all_ids, written.output_tokens)
                usage = response_usage(
                    written.input_tokens,
                    written.output_tokens,
                    reasoning,
                    chunk.usage,
                    by_turn=events.is_harmony,
                )
                yield from events.finish(output.finish_reason, usage)

    def fields(self) -> dict[str, Any]:
        return {"written": self._events.save(self._ids)}
