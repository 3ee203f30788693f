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

from core.errors import BadRequest
from core.protocol.engine import LogProbs, StreamChoice
from core.text.detokenizer import DecodeOptions, TextTokenizer, Window, detokenize
from core.text.stop import EosTokens, StopOptions, drop_stop_token

# Each string costs a step for each character of the output.
MAX_STRINGS = 256
MAX_CHARS = 65_536


class StopString:
    """Looks for one string in a text that comes in pieces (Knuth, Morris and Pratt's automaton)."""

    def __init__(self, string: str) -> None:
        self.string = string
        # For each length: the longest proper prefix of the string that ends the prefix of this length.
        self._borders = [0, 0]
        border = 0
        for char in string[1:]:
            while border and string[border] != char:
                border = self._borders[border]
            border += string[border] == char
            self._borders.append(border)

    def feed(self, matched: int, text: str) -> tuple[int, list[int]]:
        """Read on with ``matched`` characters of the string seen: how many are seen now, and where in ``text``
        the string was complete (as the number of characters read)."""
        string, borders, length = self.string, self._borders, len(self.string)
        ends: list[int] = []
        for place, char in enumerate(text, 1):
            while matched and string[matched] != char:
                matched = borders[matched]
            if string[matched] == char:
                matched += 1
                if matched == length:
                    ends.append(place)
                    matched = borders[matched]
        return matched, ends


def find_stop_strings(strings: Sequence[str]) -> list[StopString]:
    """What looks for each of a request's stop strings.

    Raises:
        BadRequest: says how many are allowed.
    """
    if len(strings) > MAX_STRINGS or sum(map(len, strings)) > MAX_CHARS:
        raise BadRequest(f"stop must hold at most {MAX_STRINGS} strings and {MAX_CHARS} characters", "stop")
    return [StopString(string) for string in strings]


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

    ``finders`` are the request's (at least one) and may be shared; ``window``
    is primed with the end of the prompt.
    """

    def __init__(
        self,
        finders: Sequence[StopString],
        tokenizer: TextTokenizer,
        window: Window,
        decode: DecodeOptions,
        options: StopOptions,
        eos: EosTokens,
    ) -> None:
        self._finders = finders
        self._tokenizer = tokenizer
        self._window = window
        self._decode = decode
        self._options = options
        self._eos = eos
        self._matched = [0] * len(finders)
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
        match = self._search(text, start)
        if match is not None:
            end, string = match
            self.found = True
            return self._ended(choice, start, ends, end, string)
        self._held.append(_Held(choice, start, self._size))
        if choice.finish_reason is not None:
            safe = self._size
        elif self._options.include_in_output:
            safe = self._size  # the string itself is shown: nothing has to wait for it
        else:
            safe = self._size - max(self._matched)
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

    def _search(self, text: str, start: int) -> tuple[int, str] | None:
        """Where a stop string ends first, past the protected text, and which one."""
        best: tuple[int, str] | None = None
        for place, finder in enumerate(self._finders):
            self._matched[place], ends = finder.feed(self._matched[place], text)
            end = next((start + end for end in ends if start + end > self._protected), None)
            if end is not None and (best is None or end < best[0]):
                best = end, finder.string
        return best

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
