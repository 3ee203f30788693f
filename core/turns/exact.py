"""Ids stay where their text is that of the plain prompt, and so does the prompt's text: always safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.turns.asked import Last
from core.turns.pieces import Pieces
from core.turns.state import Span, text_hash

REWRITTEN = "the text before the last answer is another one"
DIFFERS = "the text of the last answer is another one"
NOTHING_KEPT = "the prompt has no beginning in common with the last one"


@dataclass(frozen=True)
class Spliced:
    """Ids of the next prompt: the first ``kept`` are those of the last prompt and its output, ``tail`` the others.

    ``mode`` is "full", "part" or "append"; ``reason`` says why not all stayed.
    """

    head: list[int]
    tail: list[int]
    mode: str
    reason: str | None
    spans: list[Span]

    @property
    def kept(self) -> int:
        return len(self.head)


def splice_exactly(pieces: Pieces, text: str, last: Last, edited: Callable[[], str | None]) -> Spliced | str:
    """The ids of a plain prompt's ``text`` with those of the last turn in them; a reason where none stay.

    ``edited`` tells why the answer that was sent back is not the one that was
    sampled. It is asked only where the text does not show that it is.

    Raises:
        SeamMoved: the rest cannot be encoded by itself.
    """
    prompt, output, state = last.token_ids, last.output, last.state
    spans = state.pairs
    # The hash was taken of the text that was encoded, so a normalizer makes no difference here.
    stands = not state.spliced and len(text) >= state.chars and text_hash(text[: state.chars]) == state.text
    reason = DIFFERS
    if stands:
        kept, at = len(prompt), state.chars
    else:
        if not pieces.keeps(text):
            return REWRITTEN
        kept, at = pieces.head(prompt, text)
        reason = REWRITTEN
    if kept == len(prompt):
        more, end = pieces.head(output, text, at)
        if more == len(output):
            ids = [*prompt, *output]
            tail = pieces.encode(text[end:], ids[-1])
            return Spliced(ids, tail, "full", None, [*spans, (len(prompt), len(ids))])
        reason = edited() or DIFFERS
        if more and reason == DIFFERS:
            kept, at = kept + more, end
    if not kept:
        return NOTHING_KEPT
    head = [*prompt, *output][:kept]
    spans = [(start, min(end, kept)) for start, end in spans if start < kept]
    if kept > len(prompt):
        spans.append((len(prompt), kept))
    return Spliced(head, pieces.encode(text[at:], head[-1]), "part", reason, spans)
