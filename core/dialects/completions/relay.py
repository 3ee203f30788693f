"""Relayed completions: text, for one prompt or several at once."""

from __future__ import annotations

from collections.abc import Sequence

from core.choice.output import ChoiceOutput, Report, unreported
from core.derender.choices import completion_choice
from core.derender.completions import complete
from core.errors import RequestError
from core.json import Json
from core.protocol import openai
from core.protocol.engine import GenerateResponse, Usage
from core.relay.chunks import chunk, usage_chunk
from core.relay.echo import echo_prompts
from core.relay.request import RelayRequest
from core.relay.request import open_completion as open_request

__all__ = ["CompletionWriter", "answer", "open_request", "writer"]


class CompletionWriter:
    """Writes ``text_completion`` chunks; see :class:`~core.relay.answer.AnswerWriter`."""

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        # Where the next text of each choice begins, in characters; a choice is there once it has begun.
        self._offsets: dict[int, int] = {}

    def begin(self, counts: Json | None) -> list[Json]:
        return []

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> list[Json]:
        request = self._request
        begins = place not in self._offsets
        written, self._offsets[place] = completion_choice(output, self._offsets.get(place, 0))
        text = written["text"]
        if begins:
            if request.echo is not None:
                text = request.echo[prompt] + ("" if request.echo_only else text)
            if request.options.return_token_ids:
                written["prompt_token_ids"] = request.prompts[prompt]["token_ids"]
        elif request.echo_only:
            text = ""
        return [chunk(request, [{**written, "index": place, "text": text}], counts)]

    def end(self, counts: Json | None, reported: Usage | None, metrics: Json | None) -> list[Json]:
        return [] if counts is None else [usage_chunk(self._request, counts, reported, metrics)]

    def fail(self, error: RequestError) -> list[Json]:
        return [error.body()]


writer = CompletionWriter


def answer(
    request: RelayRequest,
    responses: Sequence[GenerateResponse],
    reported: Usage | None,
    report: Report = unreported,
) -> Json:
    """The ``CompletionResponse``; see :class:`~core.dialects.dialect.Relaying`."""
    prompt_ids = [prompt["token_ids"] for prompt in request.prompts]
    counts = list(map(len, prompt_ids))
    written = complete(request.model, request.model_name, request.options, responses, counts, prompt_ids)
    if request.echo is not None:
        echo_prompts(request, responses, written["choices"])
    written["usage"] = openai.with_prompt_details(written["usage"], [reported])
    return written
