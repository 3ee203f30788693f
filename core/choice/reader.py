"""What reading an output takes, whole or in chunks: decoding, the stop token, log probabilities, and what is shown."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.protocol.engine import Choice, StreamChoice
from core.protocol.output_options import OutputOptions
from core.text.detokenizer import Window, detokenize, detokenize_all, seed_window
from core.text.logprobs import chat_logprobs
from core.text.stop import StopReason, cut_stop_string, drop_stop_token, strings_to_cut


class OutputReader:
    """Reads the outputs that answer one request. Holds what is the same for all of them and changes nothing.

    With ``parsed`` the text is for a parser, which needs its special tokens.
    """

    def __init__(self, model: Model, options: OutputOptions, *, parsed: bool = False) -> None:
        self.tokenizer = model.tokenizer
        self.eos = model.eos
        self.options = options
        self.decode = options.decode_options(model.tokenizer.is_fast, keep_special=parsed)
        self.shows_findings = model.options.audit == "response"
        # Hidden reasoning must not come back through its logprobs or token ids.
        self.hidden = parsed and not options.include_reasoning

    def seed(self, prompt_token_ids: Sequence[int] | None) -> Window:
        """The decode window after a prompt.

        Raises:
            BadRequest: an id does not fit 32 bits.
        """
        try:
            return seed_window(self.tokenizer, prompt_token_ids, self.decode.skip_special)
        except OverflowError as exc:
            raise BadRequest(str(exc)) from exc

    def text_ids(self, choice: Choice | StreamChoice) -> tuple[Sequence[int], StopReason]:
        """The ids of a choice without its stop token, and why it stopped."""
        return drop_stop_token(
            choice.token_ids or [], choice.finish_reason, choice.stop_reason, self.options.stop, self.eos
        )

    def whole_text(self, choice: Choice, window: Window) -> tuple[str, StopReason]:
        """The text of a complete output as the engine would return it, and why it stopped.

        The stop token is dropped, then the text is cut at the stop string that
        ended generation; such a string also overrides the stop token as the reason.

        Raises:
            BadRequest: an id does not fit 32 bits.
        """
        try:
            token_ids, stop_reason = self.text_ids(choice)
            stop = self.options.stop
            strings = strings_to_cut(choice.finish_reason, choice.stop_reason, stop)
            if not strings:
                return detokenize_all(self.tokenizer, token_ids, window, self.decode), stop_reason
            # Where the text after the first min_tokens tokens begins is known only incrementally.
            protected = stop.min_tokens
            head, window = detokenize(self.tokenizer, token_ids[:protected], window, self.decode)
            tail = detokenize_all(self.tokenizer, token_ids[protected:], window, self.decode)
            text, matched = cut_stop_string(head + tail, len(tail), strings, stop.include_in_output)
            return text, stop_reason if matched is None else matched
        except OverflowError as exc:
            raise BadRequest(str(exc)) from exc

    def logprobs(self, choice: Choice | StreamChoice, context: Sequence[int] = ()) -> Json | None:
        """The log probabilities of a choice in chat's form; None when the engine sent none, or they are hidden.

        ``context`` are the sampled ids before it.

        Raises:
            BadRequest: an entry has no id, or one that no tokenizer can hold.
        """
        if choice.logprobs is None or self.hidden:
            return None
        try:
            return chat_logprobs(choice.logprobs, self.tokenizer, context, self.options.top_limit)
        except (ValueError, OverflowError) as exc:
            raise BadRequest(str(exc)) from exc

    def shown_findings(self, findings: Sequence[str]) -> list[str] | None:
        """The findings that the answer shows; an empty list says that nothing is wrong."""
        return list(findings) if self.shows_findings else None

    def shown_ids(self, choice: Choice | StreamChoice) -> list[int] | None:
        """The ids that the answer shows: where they are asked for and not hidden."""
        return choice.token_ids if self.options.return_token_ids and not self.hidden else None
