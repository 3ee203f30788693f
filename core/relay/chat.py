"""A streamed chat answer: the role first, then what the parser makes of the output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.derender.plain_stream import PlainChatStream
from core.derender.stream_call import OutputStream
from core.json import Json
from core.protocol.engine import StreamChoice
from core.relay.answer import AnswerStream
from core.relay.choice import stream_call
from core.relay.chunks import chat_choice, chunk, content_chunk, role_chunk, usage
from core.relay.request import RelayRequest

if TYPE_CHECKING:
    from core.derender.parsed_stream import ParsedStream


class ChatAnswer(AnswerStream):
    """The answer to a chat request that streams; each choice has a live stream of derender."""

    def __init__(self, request: RelayRequest) -> None:
        super().__init__(request)
        self._streams: dict[int, OutputStream] = {}
        self._parsed: dict[int, ParsedStream] = {}
        parser = request.model.chat_parser
        self._counts_reasoning = parser is not None and parser.counts_reasoning

    def begin(self) -> list[Json]:
        request = self._request
        counts = None
        if request.continuous_usage:
            counts = usage(request.prompt_tokens, 0, 0 if self._counts_reasoning else None)
        chunks = [role_chunk(request, index, counts) for index in range(request.n)]
        if request.echo and request.echo[0]:
            chunks += [content_chunk(request, index, request.echo[0], counts) for index in range(request.n)]
        return chunks

    def _open(self, place: int, prompt: int) -> None:
        request = self._request
        call = stream_call(request, prompt)
        parser = request.model.chat_parser
        if parser is None:
            self._streams[place] = PlainChatStream(request.model, call, request.options)
            return
        # Only a deployment with a parser has vLLM's parser modules loaded.
        from core.derender.parsed_stream import begin_parsed_stream

        self._streams[place] = self._parsed[place] = begin_parsed_stream(request.model, parser, request.chat, call)

    def _step(self, place: int, prompt: int, choice: StreamChoice, keep: int | None) -> Json | None:
        written = chat_choice(self._streams[place].step(choice, keep))
        if written is None:
            return None
        counts = None
        if self._request.continuous_usage:
            reasoning = self._parsed[place].reasoning_tokens() if self._counts_reasoning else None
            counts = usage(self._request.prompt_tokens, self._choices[place].tokens, reasoning)
        return chunk(self._request, [written], counts)

    def _reasoning_tokens(self) -> int | None:
        return sum(one.reasoning_tokens() for one in self._parsed.values()) if self._counts_reasoning else None
