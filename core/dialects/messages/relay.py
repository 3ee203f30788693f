"""Relayed messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.derender.chat import read_chat
from core.dialects.messages.answer import message, transfers
from core.dialects.messages.conversation import read_messages
from core.dialects.messages.errors import error_body
from core.dialects.messages.events import MessageEvents, Written
from core.dialects.messages.usage import message_usage
from core.errors import RequestError
from core.json import Json
from core.model import Model
from core.protocol.engine import GenerateResponse, Usage
from core.protocol.output_options import chat_options
from core.relay.passing import NOTHING, Passing
from core.relay.request import RelayRequest, begin_turn, open_rendered
from core.relay.turns import NO_TURNS, Turns, take_relayed
from core.render.chat import render_counted_chat
from core.render.media import RELAYED

__all__ = ["MessageWriter", "answer", "open_request", "writer"]


def open_request(
    model: Model,
    body: Any,
    request_id: str | None = None,
    passing: Passing = NOTHING,
    turns: Turns = NO_TURNS,
) -> RelayRequest:
    """A Messages request; see :class:`~core.dialects.dialect.Relaying`."""
    body, given = take_relayed(model, body, turns)
    chat = read_messages(model, body)
    turn = begin_turn(model, body, chat.messages, given, turns)
    # Rendering lets a parser set the request's own fields; the answer is read by what the client said.
    rendered, length = render_counted_chat(
        model, chat.model_copy(), request_id, RELAYED, None if turn is None else turn.continuation, relayed=True
    )
    # A message always tells its usage, of which the engine knows what was cached.
    rendered["stream_options"] = {"include_usage": True}
    assert isinstance(body, Mapping)
    parsed = None if model.chat_parser is None else chat
    options = chat_options(chat)
    return open_rendered(
        model,
        body,
        [rendered],
        rendered["request_id"],
        options,
        parsed,
        None,
        passing,
        is_chat=True,
        prompt_tokens=length,
        turn=turn,
    )


class MessageWriter:
    """Writes the events of a message; see :class:`~core.relay.answer.AnswerWriter`."""

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        self._events = MessageEvents(request.response_id, request.model_name, Written())
        self._said: list[ChoiceOutput] = []

    def begin(self, counts: Json | None) -> list[Json]:
        start = self._events.start(message_usage(self._request.prompt_tokens, 0))
        if self._request.turn is not None:
            start["message"] |= self._request.turn.told()
        return [start]

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> list[Json]:
        if self._request.turn is None:
            self._said.clear()  # only the last one tells how the message ends
        self._said.append(output)
        return list(self._events.say(output))

    def end(self, counts: Json | None, reported: Usage | None, metrics: Json | None) -> list[Json]:
        assert self._said
        assert counts is not None
        usage = message_usage(self._request.prompt_tokens, counts["completion_tokens"], reported)
        events = list(self._events.finish(self._said[-1], usage))
        carried = _carried(self._request, self._said)
        return [{**event, **carried} if event["type"] == "message_delta" else event for event in events]

    def fail(self, error: RequestError) -> list[Json]:
        return [error_body(error)]


writer = MessageWriter


def _carried(request: RelayRequest, said: Sequence[ChoiceOutput]) -> Json:
    """The ids of a complete message, where the conversation continues token for token."""
    carried = None if request.turn is None else request.turn.answered(request.prompts[0]["token_ids"], said)
    return {} if carried is None else {"turn_state": carried}


def answer(
    request: RelayRequest,
    responses: Sequence[GenerateResponse],
    reported: Usage | None,
    report: Report = unreported,
) -> Json:
    """The ``Message``; see :class:`~core.dialects.dialect.Relaying`."""
    (response,) = responses
    (output,) = read_chat(
        request.model, response, request.options, request.chat, response.prompt_token_ids, repaired=True
    )
    report_findings([output], report)
    usage = message_usage(request.prompt_tokens, len(output.source.token_ids or ()), reported)
    told = {} if request.turn is None else request.turn.told()
    written = message(output, request.response_id, request.model_name, usage)
    return {**written, **transfers(response), **_carried(request, [output]), **told}
