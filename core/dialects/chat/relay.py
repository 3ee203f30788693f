"""Relayed chats: a streamed one begins with the role, then come what the choices say and the usage."""

from __future__ import annotations

from collections.abc import Sequence

from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.derender.chat import chat_response, read_chat
from core.json import Json
from core.protocol.engine import GenerateResponse, Usage
from core.relay.chunks import chat_choice, chunk, content_chunk, role_chunk, usage_chunk, with_prompt_details
from core.relay.request import RelayRequest
from core.relay.request import open_chat as open_request

__all__ = ["ChatWriter", "answer", "open_request", "writer"]


class ChatWriter:
    """Writes ``chat.completion.chunk``s; see :class:`~core.relay.answer.AnswerWriter`."""

    def __init__(self, request: RelayRequest) -> None:
        self._request = request

    def begin(self, counts: Json | None) -> list[Json]:
        request = self._request
        chunks = [role_chunk(request, index, counts) for index in range(request.n)]
        if request.echo and request.echo[0]:
            chunks += [content_chunk(request, index, request.echo[0], counts) for index in range(request.n)]
        return chunks

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> list[Json]:
        written = chat_choice(output)
        return [] if written is None else [chunk(self._request, [written], counts)]

    def end(self, counts: Json | None, reported: Usage | None, metrics: Json | None) -> list[Json]:
        return [] if counts is None else [usage_chunk(self._request, counts, reported, metrics)]


writer = ChatWriter


def answer(
    request: RelayRequest,
    responses: Sequence[GenerateResponse],
    reported: Usage | None,
    report: Report = unreported,
) -> Json:
    """The ``ChatCompletionResponse``; see :class:`~core.dialects.dialect.Relaying`."""
    (response,) = responses
    outputs = read_chat(
        request.model, response, request.options, request.chat, response.prompt_token_ids, count_reasoning=True
    )
    report_findings(outputs, report)
    written = chat_response(response, request.model_name, request.options, outputs, request.prompt_tokens)
    for text in filter(None, request.echo or ()):
        for choice in written["choices"]:
            choice["message"]["content"] = text + (choice["message"]["content"] or "")
    written["usage"] = with_prompt_details(written["usage"], reported)
    return written
