"""One choice on its way through the relay: the checks on what the engine sends, stop strings, and the counts."""

from __future__ import annotations

from collections.abc import Iterator

from core.bounds import check_ids
from core.errors import BadRequest
from core.protocol.engine import StreamChoice
from core.relay.errors import EngineFailed
from core.relay.request import RelayRequest
from core.relay.stop_strings import Release, StopStrings
from core.text.detokenizer import seed_window
from core.text.stop_search import StopSearch


class RelayedChoice:
    """What one choice has sent so far.

    ``tokens`` counts what is part of the answer: nothing after a stop string.
    ``finished`` says that it is complete, ``stopped`` that the relay ended it
    and the engine may still go on.
    """

    def __init__(self, request: RelayRequest, prompt: int) -> None:
        self.tokens = 0
        self.finished = False
        self.stopped = False
        self._limit = request.max_tokens[prompt]
        self._received = 0
        self._stops = _stop_strings(request, prompt, request.stop_search) if request.stop_search is not None else None

    def receive(self, choice: StreamChoice) -> Iterator[Release]:
        """The chunks that one chunk of the engine lets out, in order; what comes after the end is dropped.

        Raises:
            EngineFailed: the engine gave up, or sent what it was not asked for.
        """
        if self.finished:
            return
        ids = choice.token_ids or []
        _check(choice, ids)
        if not ids and choice.finish_reason is None:
            return  # the engine still reads the prompt
        self._received += len(ids)
        if self._received > self._limit:
            raise EngineFailed(f"the engine sent more than the {self._limit} tokens that it was asked for")
        for release in [Release(choice)] if self._stops is None else self._stops.feed(choice):
            self.tokens += len(release.choice.token_ids or ())
            self.finished = release.choice.finish_reason is not None
            yield release
        self.stopped = self._stops is not None and self._stops.found


def _check(choice: StreamChoice, ids: list[int]) -> None:
    if choice.finish_reason in ("error", "abort"):
        what = "failed while it generated" if choice.finish_reason == "error" else "gave the request up"
        raise EngineFailed(f"the engine {what}")
    try:
        check_ids(ids, "token_ids")
    except BadRequest as exc:
        raise EngineFailed("the engine sent ids that no vocabulary holds") from exc
    content = choice.logprobs.content if choice.logprobs is not None else None
    if content is not None and len(content) != len(ids):
        raise EngineFailed("the engine sent log probabilities that do not belong to its tokens")


def _stop_strings(request: RelayRequest, prompt: int, search: StopSearch) -> StopStrings:
    tokenizer = request.model.tokenizer
    # Searched is what the parser reads: with its markup.
    decode = request.options.decode_options(tokenizer.is_fast, keep_special=request.chat is not None)
    window = seed_window(tokenizer, request.prompts[prompt]["token_ids"], decode.skip_special)
    return StopStrings(search, tokenizer, window, decode, request.options.stop, request.model.eos)
