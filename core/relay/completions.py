"""A streamed completions answer: text, for one prompt or several at once."""

from __future__ import annotations

from core.derender.plain_stream import CompletionStream
from core.json import Json
from core.protocol.engine import StreamChoice
from core.relay.answer import AnswerStream
from core.relay.choice import stream_call
from core.relay.chunks import chunk, usage
from core.relay.request import RelayRequest


class CompletionAnswer(AnswerStream):
    """The answer to a completion request that streams."""

    def __init__(self, request: RelayRequest) -> None:
        super().__init__(request)
        self._streams: dict[int, CompletionStream] = {}
        self._begun: set[int] = set()

    def _open(self, place: int, prompt: int) -> None:
        request = self._request
        self._streams[place] = CompletionStream(request.model, stream_call(request, prompt), request.options)

    def _step(self, place: int, prompt: int, choice: StreamChoice, keep: int | None) -> Json | None:
        request = self._request
        written = self._streams[place].step(choice, keep)
        token_ids = request.prompts[prompt]["token_ids"]
        text = written["text"]
        if place not in self._begun:
            self._begun.add(place)
            if request.echo is not None:
                text = request.echo[prompt] + ("" if request.echo_only else text)
            if request.options.return_token_ids:
                written["prompt_token_ids"] = token_ids
        elif request.echo_only:
            text = ""
        counts = None
        if request.continuous_usage:
            counts = usage(len(token_ids), self._choices[place].tokens, None)
        return chunk(request, [{**written, "index": place, "text": text}], counts)
