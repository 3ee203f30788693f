"""A choice that is only detokenized: chat without a parser, and completions."""

from __future__ import annotations

from collections.abc import Sequence

from core.choice.output import ChoiceOutput
from core.choice.reader import OutputReader
from core.protocol.engine import Choice, StreamChoice
from core.text.detokenizer import Window, detokenize
from core.text.logprobs import advance_context


class TextStream:
    """The stream of such a choice: its decode window, and the last sampled ids (``context``)."""

    def __init__(self, reader: OutputReader, window: Window, context: Sequence[int] = ()) -> None:
        self._reader = reader
        self.window = window
        self.context: Sequence[int] = context

    def advance(self, choice: StreamChoice, keep: int | None = None) -> ChoiceOutput:
        """Read one chunk; see :class:`~core.choice.output.ChoiceStream`.

        Raises:
            BadRequest: its log probabilities cannot be read.
        """
        reader = self._reader
        ids, stop_reason = reader.text_ids(choice)
        text, self.window = detokenize(reader.tokenizer, ids, self.window, reader.decode)
        logprobs = reader.logprobs(choice, self.context)
        self.context = advance_context(self.context, choice.token_ids or [])
        return ChoiceOutput(
            choice,
            content=text[:keep] or None,
            finish_reason=choice.finish_reason,
            stop_reason=stop_reason,
            logprobs=logprobs,
            token_ids=reader.shown_ids(choice),
        )

    def reasoning_tokens(self) -> int | None:
        return None


def read_text(reader: OutputReader, choice: Choice, window: Window) -> ChoiceOutput:
    """Read such a choice in one piece.

    Raises:
        BadRequest: it holds ids that no tokenizer can hold.
    """
    logprobs = reader.logprobs(choice)
    text, stop_reason = reader.whole_text(choice, window)
    return ChoiceOutput(
        choice,
        content=text,
        finish_reason=choice.finish_reason,
        stop_reason=stop_reason,
        logprobs=logprobs,
        token_ids=reader.shown_ids(choice),
    )
