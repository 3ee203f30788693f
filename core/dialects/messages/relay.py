"""Relayed messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.derender.chat import read_chat
from core.dialects.messages.answer import message, transfers
from core.dialects.messages.conversation import read_messages
from core.dialects.messages.events import MessageEvents, Written
from core.dialects.messages.usage import message_usage
from core.json import Json
from core.model import Model
from core.protocol.engine import GenerateResponse, Usage
from core.protocol.output_options import chat_options
from core.relay.passing import NOTHING, Passing
from core.relay.request import RelayRequest, open_rendered
from core.render.chat import render_counted_chat
from core.render.media import RELAYED

__all__ = ["MessageWriter", "answer", "open_request", "writer"]


def open_request(model: Model, body: Any, request_id: str | None = None, passing: Passing = NOTHING) -> RelayRequest:
    """A Messages request; see :class:`~core.dialects.dialect.Relaying`."""
    chat = read_messages(model, body)
    # Rendering lets a parser set the request's own fields; the answer is read by what the client said.
    rendered, length = render_counted_chat(model, chat.model_copy(), request_id, RELAYED)
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
    )


class MessageWriter:
    """Writes the events of a message; see :class:`~core.relay.answer.AnswerWriter`."""

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        self._events = MessageEvents(request.response_id, request.model_name, Written())
        self._last: ChoiceOutput | None = None

    def begin(self, counts: Json | None) -> list[Json]:
        return [self._events.start(message_usage(self._request.prompt_tokens, 0))]

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> list[Json]:
        self._last = output
        return list(self._events.say(output))

    def end(self, counts: Json | None, reported: Usage | None, metrics: Json | None) -> list[Json]:
        assert self._last is not None
        assert counts is not None
        usage = message_usage(self._request.prompt_tokens, counts["completion_tokens"], reported)
        return list(self._events.finish(self._last, usage))


writer = MessageWriter


def answer(
    request: RelayRequest,
    responses: Sequence[GenerateResponse],
    reported: Usage | None,
    report: Report = unreported,
) -> Json:
    """The ``Message``; see :class:`~core.dialects.dialect.Relaying`."""
    (response,) = responses
    (output,) = read_chat(request.model, response, request.options, request.chat, response.prompt_token_ids)
    report_findings([output], report)
    usage = message_usage(request.prompt_tokens, len(output.source.token_ids or ()), reported)
    return {**message(output, request.response_id, request.model_name, usage), **transfers(response)}
