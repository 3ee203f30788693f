"""A streamed chat answer: the role first, then what the choices say."""

from __future__ import annotations

from core.choice.output import ChoiceOutput
from core.json import Json
from core.relay.chunks import chat_choice, chunk, content_chunk, role_chunk
from core.relay.request import RelayRequest


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

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> Json | None:
        written = chat_choice(output)
        return None if written is None else chunk(self._request, [written], counts)
