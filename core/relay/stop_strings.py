"""Stop strings in a stream: what a choice may show, and where it ends.

An engine that only knows tokens cannot look for strings (vLLM's refuses them),
so the relay does: it reads the text of every token, holds back the chunks
whose text may be the beginning of a stop string, and ends the choice where one
is complete. Whole chunks are held, not characters, so that a parser sees text
and ids of a chunk together.

Rules (vLLM's): a string counts only when it ends past the first ``min_tokens``
tokens; the one that is complete first wins, with ties the earlier in the list;
tokens after the one that completes it do not count. The text is cut before the
string, or after it with ``include_stop_str_in_output``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from core.protocol.engine import LogProbs, StreamChoice
from core.text.detokenizer import DecodeOptions, TextTokenizer, Window, detokenize
from core.text.stop import EosTokens, StopOptions, drop_stop_token
from core.text.stop_search import StopSearch


@dataclass(frozen=True)
class Release:
    """A chunk that may go out; ``keep`` characters of its text count (None: all)."""

    choice: StreamChoice
    keep: int | None = None


@dataclass
class _Held:
    choice: StreamChoice
    start: int
    end: int


class StopStrings:
    """The stop strings of one choice: ``feed`` takes its chunks in order and gives back those that may go out.

    ``search`` looks for the request's strings (at least one) and may be
    shared; ``window`` is primed with the end of the prompt.
    """

    def __init__(
        self,
        search: StopSearch,
        tokenizer: TextTokenizer,
        window: Window,
        decode: DecodeOptions,
        options: StopOptions,
        eos: EosTokens,
    ) -> None:
        self._search = search
        self._seen = 0
        self._tokenizer = tokenizer
        self._window = window
        self._decode = decode
        self._options = options
        self._eos = eos
        self._held: list[_Held] = []
        # In characters of the output's text: all so far, and what the first min_tokens tokens hold.
        self._size = 0
        self._protected = 0
        self._tokens = 0
        self.found = False

    def feed(self, choice: StreamChoice) -> list[Release]:
        """The chunks that may go out now. Once ``found`` is set the last of them ends the choice."""
        ids, _ = drop_stop_token(
            choice.token_ids or [], choice.finish_reason, choice.stop_reason, self._options, self._eos
        )
        start = self._size
        text, ends = self._decode_each(ids)
        self._seen, match = self._search.feed(self._seen, text, after=self._protected - start)
        if match is not None:
            self.found = True
            return self._ended(choice, start, ends, start + match[0], match[1])
        self._held.append(_Held(choice, start, self._size))
        if choice.finish_reason is not None:
            safe = self._size
        elif self._options.include_in_output:
            safe = self._size  # the string itself is shown: nothing has to wait for it
        else:
            safe = self._size - self._search.matched(self._seen)
        released = []
        while self._held and self._held[0].end <= safe:
            released.append(Release(self._held.pop(0).choice))
        return released

    def _decode_each(self, ids: Sequence[int]) -> tuple[str, list[int]]:
        """The text of some tokens, and where the text of each ends."""
        parts, ends = [], []
        for token_id in ids:
            text, self._window = detokenize(self._tokenizer, [token_id], self._window, self._decode)
            parts.append(text)
            self._size += len(text)
            self._tokens += 1
            if self._tokens <= self._options.min_tokens:
                self._protected = self._size
            ends.append(self._size)
        return "".join(parts), ends

    def _ended(self, choice: StreamChoice, start: int, ends: Sequence[int], end: int, string: str) -> list[Release]:
        kept = bisect_left(ends, end) + 1
        last = choice.model_copy(
            update={
                "token_ids": (choice.token_ids or [])[:kept],
                "logprobs": _first(choice.logprobs, kept),
                "finish_reason": "stop",
                "stop_reason": string,
            }
        )
        limit = end if self._options.include_in_output else end - len(string)
        held = [*self._held, _Held(last, start, self._size)]
        self._held = []
        return [Release(one.choice, max(min(one.end, limit) - one.start, 0)) for one in held]


def _first(logprobs: LogProbs | None, count: int) -> LogProbs | None:
    if logprobs is None or logprobs.content is None:
        return logprobs
    return LogProbs(content=logprobs.content[:count])
