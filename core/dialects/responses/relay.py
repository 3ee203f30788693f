"""Relayed responses. There is no store: what asks for one is refused as vLLM's server without one refuses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.derender.chat import read_chat
from core.dialects.responses.answer import envelope_of, response, response_options
from core.dialects.responses.errors import InvalidRequest, ResponseNotFound
from core.dialects.responses.events import Envelope, ResponseEvents, Written
from core.dialects.responses.prompt import RenderedResponse, render_response
from core.dialects.responses.request import door
from core.dialects.responses.said import Said
from core.dialects.responses.usage import response_usage
from core.errors import RequestError
from core.json import Json
from core.model import Model
from core.protocol.engine import GenerateResponse, Usage
from core.relay.passing import NOTHING, Passing
from core.relay.request import RelayRequest, begin_turn, open_rendered
from core.relay.turns import NO_TURNS, Turns, take_relayed
from core.render.media import RELAYED
from core.upstream.refusals import refusals
from core.upstream.responses import chat_messages, validate_responses, wants_logprobs

__all__ = ["ResponseWriter", "answer", "open_request", "writer"]

_NO_STORE = (
    "This vLLM engine does not support `store=True` and therefore does not support the background mode. "
    "To enable these features, set the environment variable `VLLM_ENABLE_RESPONSES_API_STORE=1` when "
    "launching the vLLM server."
)


@dataclass(frozen=True)
class _Kept:
    """What of a request its answer tells: ``asked`` is vLLM's request, as its parser left it."""

    asked: Any
    rendered: RenderedResponse


def open_request(
    model: Model,
    body: Any,
    request_id: str | None = None,
    passing: Passing = NOTHING,
    turns: Turns = NO_TURNS,
) -> RelayRequest:
    """A Responses request; see :class:`~core.dialects.dialect.Relaying`. Its id is its own: vLLM reads no header."""
    body, given = take_relayed(model, body, turns)
    request = validate_responses(body)
    model.resolve_name(request.model)
    _check_supported(model, request)
    asked = request.model_copy()
    with refusals():
        turn = None
        if given is not None or turns.policy is not None:
            # vLLM joins items into messages in place, and does so once more for the prompt.
            messages = chat_messages(request.model_copy(update={"input": deepcopy(request.input)}))
            turn = begin_turn(model, body, messages, given, turns, door)
        # Rendering lets a parser set the request's own fields; the answer is read by what the client said.
        continuation = None if turn is None else turn.continuation
        rendered = render_response(model, asked, RELAYED, continuation, relayed=True)
    prompt = rendered.body
    prompt["stream_options"] = {"include_usage": True}
    if rendered.grammar_from_parser:
        prompt["reasoning_ended"] = True
    assert isinstance(body, Mapping)
    return open_rendered(
        model,
        body,
        [prompt],
        request.request_id,
        response_options(model, request),
        None if model.chat_parser is None else request,
        None,
        passing,
        is_chat=True,
        prompt_tokens=rendered.prompt_tokens,
        turn=turn,
        kept=_Kept(asked, rendered),
    )


def _check_supported(model: Model, request: Any) -> None:
    """Refuse what vLLM's server without a store refuses, in its order."""
    if model.config.is_harmony and wants_logprobs(request):
        raise InvalidRequest("logprobs are not supported with gpt-oss models", "logprobs")
    if request.store and request.background:
        raise InvalidRequest(_NO_STORE, "background")
    if request.previous_input_messages and request.previous_response_id:
        raise InvalidRequest(
            "Only one of `previous_input_messages` and `previous_response_id` can be set.", "previous_response_id"
        )
    if request.previous_response_id is not None:
        raise ResponseNotFound(request.previous_response_id)


def _envelope(request: RelayRequest, **passed: Any) -> Envelope:
    kept: _Kept = request.kept
    return envelope_of(
        lambda: kept.asked, lambda: kept.rendered.sampling, request.response_id, request.model_name, **passed
    )


class ResponseWriter:
    """Writes the events of a response; see :class:`~core.relay.answer.AnswerWriter`."""

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        self._harmony = request.model.config.is_harmony
        written = Written(created=request.created, said=Said())
        self._events = ResponseEvents(request.kept.asked, _envelope(request), written, is_harmony=self._harmony)
        self._said: list[ChoiceOutput] = []

    def begin(self, counts: Json | None) -> list[Json]:
        return list(self._events.start())

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> list[Json]:
        if self._request.turn is None:
            self._said.clear()  # only the last one tells how the response ends
        self._said.append(output)
        return list(self._events.say(output))

    def end(self, counts: Json | None, reported: Usage | None, metrics: Json | None) -> list[Json]:
        assert self._said
        assert counts is not None
        details = counts.get("completion_tokens_details") or {}
        usage = response_usage(
            self._request.prompt_tokens,
            counts["completion_tokens"],
            details.get("reasoning_tokens", 0),
            reported,
            by_turn=self._harmony,
        )
        events = list(self._events.finish(self._said[-1].finish_reason, usage))
        events[-1]["response"] = _continued(self._request, events[-1]["response"], self._said)
        return events

    def fail(self, error: RequestError) -> list[Json]:
        return [self._events.fail(error)]


writer = ResponseWriter


def _continued(request: RelayRequest, written: Json, said: Sequence[ChoiceOutput]) -> Json:
    """A response whose last item carries the ids of the answer, where the conversation continues token for token."""
    if request.turn is None:
        return written
    output = list(written["output"])
    carried = request.turn.answered(request.prompts[0]["token_ids"], said)
    if output and carried is not None:
        output[-1] = {**output[-1], "turn_state": carried}
    return {**written, "output": output, **request.turn.told()}


def answer(
    request: RelayRequest,
    responses: Sequence[GenerateResponse],
    reported: Usage | None,
    report: Report = unreported,
) -> Json:
    """The ``Response``; see :class:`~core.dialects.dialect.Relaying`."""
    (source,) = responses
    model = request.model
    asked = request.kept.asked if request.chat is None else request.chat
    (output,) = read_chat(
        model, source, request.options, asked, source.prompt_token_ids, count_reasoning=True, repaired=True
    )
    report_findings([output], report)
    usage = response_usage(
        request.prompt_tokens,
        len(output.source.token_ids or ()),
        output.reasoning_tokens or 0,
        reported,
        by_turn=model.config.is_harmony,
    )
    write = _envelope(
        request, kv_transfer_params=source.kv_transfer_params, ec_transfer_params=source.ec_transfer_params
    )
    return _continued(request, response(model, asked, output, write, request.created, usage), [output])
