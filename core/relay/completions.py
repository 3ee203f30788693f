"""A streamed completions answer: text, for one prompt or several at once."""

from __future__ import annotations

from core.choice.output import ChoiceOutput
from core.derender.choices import completion_choice
from core.json import Json
from core.relay.chunks import chunk
from core.relay.request import RelayRequest


class CompletionWriter:
    """Writes ``text_completion`` chunks; see :class:`~core.relay.answer.AnswerWriter`."""

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        # Where the next text of each choice begins, in characters; a choice is there once it has begun.
        self._offsets: dict[int, int] = {}

    def begin(self, counts: Json | None) -> list[Json]:
        return []

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> Json | None:
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
        return chunk(request, [{**written, "index": place, "text": text}], counts)
