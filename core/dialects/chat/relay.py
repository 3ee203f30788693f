"""Relayed chats: a streamed one begins with the role, then come what the choices say and the usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.derender.chat import chat_response, read_chat
from core.errors import RequestError
from core.json import Json
from core.protocol import openai
from core.protocol.engine import GenerateResponse, Usage
from core.relay.chunks import chat_choice, chunk, content_chunk, role_chunk, usage_chunk
from core.relay.request import RelayRequest
from core.relay.request import open_chat as open_request
from core.relay.turns import RelayedTurn

__all__ = ["ChatWriter", "answer", "open_request", "writer"]


def one_call_each(output: ChoiceOutput) -> list[ChoiceOutput]:
    """An output in pieces none of which has more than one call: clients that count on that lose the others.

    What is said once is said with the first piece, and the end with the last.
    """
    calls = output.tool_calls
    if len(calls) < 2:
        return [output]
    first = replace(output, tool_calls=calls[:1], finish_reason=None)
    last = replace(output, content=None, reasoning=None, logprobs=None, token_ids=None, tool_calls=calls[-1:])
    between = [ChoiceOutput(output.source, tool_calls=[call]) for call in calls[1:-1]]
    return [first, *between, last]


class ChatWriter:
    """Writes ``chat.completion.chunk``s; see :class:`~core.relay.answer.AnswerWriter`."""

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        # All outputs of each choice, where its message is to carry its ids.
        self._said: dict[int, list[ChoiceOutput]] = {}

    def begin(self, counts: Json | None) -> list[Json]:
        request = self._request
        told = {} if request.turn is None else request.turn.told()
        chunks = [{**role_chunk(request, index, counts), **told} for index in range(request.n)]
        if request.echo and request.echo[0]:
            chunks += [content_chunk(request, index, request.echo[0], counts) for index in range(request.n)]
        return chunks

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> list[Json]:
        written = [choice for part in one_call_each(output) if (choice := chat_choice(part)) is not None]
        turn = self._request.turn
        if turn is not None:
            said = self._said.setdefault(place, [])
            said.append(output)
            if written and output.finish_reason is not None:
                carry_turn(written[-1]["delta"], turn, self._request, said)
        return [chunk(self._request, [choice], counts) for choice in written]

    def end(self, counts: Json | None, reported: Usage | None, metrics: Json | None) -> list[Json]:
        return [] if counts is None else [usage_chunk(self._request, counts, reported, metrics)]

    def fail(self, error: RequestError) -> list[Json]:
        return [error.body()]


writer = ChatWriter


def carry_turn(message: Json, turn: RelayedTurn, request: RelayRequest, said: Sequence[ChoiceOutput]) -> None:
    """Put the ids of a complete choice on its message, or its last delta."""
    carried = turn.answered(request.prompts[0]["token_ids"], said)
    if carried is not None:
        message["turn_state"] = carried


def answer(
    request: RelayRequest,
    responses: Sequence[GenerateResponse],
    reported: Usage | None,
    report: Report = unreported,
) -> Json:
    """The ``ChatCompletionResponse``; see :class:`~core.dialects.dialect.Relaying`."""
    (response,) = responses
    outputs = read_chat(
        request.model,
        response,
        request.options,
        request.chat,
        response.prompt_token_ids,
        count_reasoning=True,
        repaired=True,
    )
    report_findings(outputs, report)
    written = chat_response(response, request.model_name, request.options, outputs, request.prompt_tokens)
    for text in filter(None, request.echo or ()):
        for choice in written["choices"]:
            choice["message"]["content"] = text + (choice["message"]["content"] or "")
    written["usage"] = openai.with_prompt_details(written["usage"], [reported])
    if request.turn is None:
        return written
    for choice, output in zip(written["choices"], outputs, strict=True):
        carry_turn(choice["message"], request.turn, request, [output])
    return {**written, **request.turn.told()}
