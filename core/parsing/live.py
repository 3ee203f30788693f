"""One choice's output being parsed: vLLM's stream processor with the decode window that feeds it.

A live stream is rebuilt for every call, from nothing, from a checkpoint, or by
replaying all earlier chunks; it is never kept between calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import RequestError
from core.parsing.budget import ParserBudget
from core.parsing.chat_parser import ChatParser
from core.text.detokenizer import DecodeOptions, Window, detokenize, seed_window
from core.upstream.reading import Segment


@dataclass
class LiveStream:
    """A processor, vLLM's or one like it, and its window. ``step`` changes both, within the ``budget`` of a call.

    Without one it is the engine that sets the pace, token by token. ``text``
    is what was decoded by the last step.
    """

    parser: ChatParser
    processor: Any
    window: Window
    decode: DecodeOptions
    budget: ParserBudget | None = None
    text: str = ""
    broken: bool = False

    @property
    def request(self) -> Any:
        """vLLM's request that the output answers."""
        return self.processor.request

    def step(
        self,
        text_ids: Sequence[int],
        token_ids: list[int],
        finish_reason: str | None,
        prompt_token_ids: list[int] | None,
        keep: int | None = None,
    ) -> tuple[Any, str | None]:
        """Feed one chunk: the delta (vLLM's ``DeltaMessage`` or None) and the chat finish reason.

        ``text_ids`` are the chunk's ids without a stop token; the parser is
        shown all of them, as in vLLM. ``keep`` is how many characters of their
        text count, where a stop string cuts it (None: all).

        Raises:
            BadRequest: the budget of the call, where it has one, is used up.
            Exception: of any kind, from the parser.
        """
        by_token = self.parser.steps_by_token and bool(token_ids)
        pieces: list[tuple[Sequence[int], list[int]]] = [(text_ids, token_ids)]
        if by_token:
            # As the engine would have sent them one at a time, the deltas in one.
            pieces = [(text_ids[place : place + 1], [token_id]) for place, token_id in enumerate(token_ids)]
        deltas = []
        text = ""
        for number, (shown, ids) in enumerate(pieces, 1):
            ends = finish_reason if number == len(pieces) else None
            result, keep = self._feed(shown, ids, ends, prompt_token_ids, keep)
            text += self.text
            deltas.append(result.delta)
        self.text = text
        return merge_deltas(deltas) if by_token else result.delta, result.finish_reason

    def take_segments(self) -> Sequence[Segment] | None:
        """What the last step said, in segments; None where the model or the dialect has none."""
        take = getattr(self.processor, "take_segments", None)
        segments: Sequence[Segment] | None = None if take is None else take()
        return segments

    def tokens(
        self, text_ids: Sequence[int], token_ids: Sequence[int], prompt_token_ids: list[int] | None, keep: int | None
    ) -> Iterator[Any]:
        """Feed a chunk one token at a time, none of them the end: the delta of each, or None, with its ``text``.

        A parser that raises is ``broken``: it is not asked any more.

        Raises:
            BadRequest: the budget of the call, where it has one, is used up.
        """
        for place, token_id in enumerate(token_ids):
            shown = text_ids[place : place + 1]
            if not self.broken:
                try:
                    result, keep = self._feed(shown, [token_id], None, prompt_token_ids, keep)
                    yield result.delta
                    continue
                except RequestError:
                    raise
                except Exception:
                    self.broken = True
            else:
                self._decode(shown, keep)
            keep = None if keep is None else max(keep - len(self.text), 0)
            yield None

    def finish(self, finish_reason: str, prompt_token_ids: list[int] | None) -> Any:
        """Tell the parser that the output is over: its last delta, or None; also where it raises."""
        if self.broken:
            return None
        try:
            return self.processor.step("", [], finish_reason, prompt_token_ids).delta
        except Exception:
            # Parsers that count on one token in every chunk.
            return None

    def _feed(
        self,
        text_ids: Sequence[int],
        token_ids: list[int],
        finish_reason: str | None,
        prompt_token_ids: list[int] | None,
        keep: int | None,
    ) -> tuple[Any, int | None]:
        """One step of the processor, and how many characters count of what comes after it."""
        if self.budget is not None:
            self.budget.check()
        size = self._decode(text_ids, keep)
        result = self.processor.step(self.text, token_ids, finish_reason, prompt_token_ids)
        return result, None if keep is None else max(keep - size, 0)

    def _decode(self, text_ids: Sequence[int], keep: int | None) -> int:
        """Set ``text`` to what counts of a step's text; its whole length."""
        text, self.window = detokenize(self.parser.tokenizer, text_ids, self.window, self.decode)
        self.text = text[:keep]
        return len(text)


def merge_deltas(parts: Iterable[Any]) -> Any:
    """vLLM's ``DeltaMessage`` that says what several say (None: nothing), one entry for each tool call; or None.

    One delta alone can have two entries of one call, too, which clients that
    count on one may read wrongly.
    """
    deltas = [delta for delta in parts if delta is not None]
    if not deltas:
        return None
    merged = deltas[0].model_copy(update={"content": None, "reasoning": None, "tool_calls": []})
    calls: dict[int, Any] = {}
    for delta in deltas:
        for name in ("content", "reasoning"):
            more = getattr(delta, name)
            if more is not None:
                setattr(merged, name, (getattr(merged, name) or "") + more)
        for call in delta.tool_calls:
            known = calls.get(call.index)
            if known is None:
                calls[call.index] = call.model_copy(deep=True)
                continue
            known.id = known.id or call.id
            known.type = known.type or call.type
            if call.function is not None:
                known.function = _merge_functions(known.function, call.function)
    merged.tool_calls = list(calls.values())
    return merged


def _merge_functions(first: Any, more: Any) -> Any:
    if first is None:
        return more.model_copy()
    if more.arguments is not None:
        first.arguments = (first.arguments or "") + more.arguments
    first.name = first.name or more.name
    return first


def start_stream(
    parser: ChatParser,
    chat_request: Any,
    prompt_token_ids: Sequence[int] | None,
    decode: DecodeOptions,
    budget: ParserBudget | None = None,
    *,
    repaired: bool = False,
) -> LiveStream:
    """A stream before its first chunk, its window primed with the end of the prompt.

    ``repaired`` says what it is for: the processor of a repaired reading tells more.
    """
    window = seed_window(parser.tokenizer, prompt_token_ids, decode.skip_special)
    return LiveStream(parser, parser.processor(chat_request, repaired=repaired), window, decode, budget)
