"""The prompt of a chat request that continues from the last turn, and what became of the ids of that turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from core.json import Json
from core.model import Model
from core.render.conversation import Conversation, with_messages
from core.render.length import check_length
from core.render.prompt import Prompt, check_ids, check_text, tokenize_text
from core.render.writing import write_conversation
from core.tokenizer import Tokenizer
from core.turns.append import Render, splice_after
from core.turns.asked import Asked, Last
from core.turns.door import CHAT, Door
from core.turns.exact import Spliced, splice_exactly
from core.turns.pieces import NoAnchor, Pieces, SeamMoved
from core.turns.said import EDITED, Said, is_answer, readings, said_in
from core.turns.state import MAX_SPANS, STATE, Span, TurnState, ids_hash, signed, text_hash, turn_config
from core.upstream.refusals import refusals

_NO_TEXT = "prompts of this model are written as ids, not as text"
_NO_ANSWER = "the messages hold no answer"
_ADDED = "special tokens are added to the prompt"
_SEAM = "the text behind the kept ids cannot be encoded by itself"
_TOO_MANY = f"the conversation has more than {MAX_SPANS} sampled spans"


@dataclass(frozen=True)
class Continued:
    """What became of the last turn in the next prompt.

    ``mode`` is "full" (all ids stay, and the text is the plain one), "part"
    (some stay, and the text is the plain one), "append" (all stay, and the text
    is not the plain one) or "plain" (none stay). ``kept`` is how many of the
    first ids are those of the last prompt and its output, ``reason`` why not
    all are. ``state`` is for the next turn, None where there can be none.
    """

    mode: str
    kept: int
    reason: str | None
    spans: list[Span]
    state: TurnState | None

    def fields(self) -> Json:
        """The fields that an answer shows."""
        told = {
            "mode": self.mode,
            "kept": self.kept,
            "reason": self.reason,
            "sampled_spans": [list(span) for span in self.spans],
        }
        return {"continuation": told, STATE: None if self.state is None else self.state.fields()}


class Continuation:
    """Makes the prompt of one request. ``result`` is there once the request is rendered."""

    def __init__(self, model: Model, asked: Asked, door: Door = CHAT) -> None:
        self._model = model
        self._asked = asked
        self._door = door
        self.result = Continued("plain", 0, _NO_TEXT, [], None)

    def encode(self, conversation: Conversation, text: str, params: Any) -> Prompt:
        """The prompt of a conversation's plain text; ``params`` are vLLM's ``TokenizeParams``.

        Raises:
            Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
        """
        renderer = self._model.renderer
        checked = check_text(renderer.tokenizer, text, params)
        before = _put_before(renderer.tokenizer, params)
        unfit = _ADDED if before is None else _unfit(conversation, params)
        last = self._asked.last
        found: Spliced | str = self._asked.reason
        if unfit is not None:
            found = unfit
        elif last is not None:
            check_length(renderer.tokenizer, text, renderer.limits.max_model_len)
            assert before is not None
            found = self._spliced(conversation, text, last, before)
        if isinstance(found, str):
            prompt = tokenize_text(renderer, checked, params)
            self._note("plain", 0, found, [], None if unfit else text, prompt)
            return prompt
        prompt = check_ids(renderer.tokenizer, found.head + found.tail, params)
        self._note(found.mode, found.kept, found.reason, found.spans, text, prompt)
        return prompt

    def _spliced(self, conversation: Conversation, text: str, last: Last, before: list[int]) -> Spliced | str:
        """The ids, or why none stay; those that the tokenizer puts before every prompt have no text of their own."""
        if last.token_ids[: len(before)] != before:
            return _ADDED
        found = _Splicing(self._model, self._door, conversation, text, _moved(last, -len(before)))
        spliced = found.run(self._asked.policy)
        if isinstance(spliced, str) or not before:
            return spliced
        spans = [(start + len(before), end + len(before)) for start, end in spliced.spans]
        return replace(spliced, head=[*before, *spliced.head], spans=spans)

    def _note(
        self, mode: str, kept: int, reason: str | None, spans: list[Span], text: str | None, prompt: Prompt
    ) -> None:
        state = None
        if text is not None:
            state = TurnState(
                config=turn_config(self._model),
                chars=len(text),
                text=text_hash(text),
                ids=ids_hash(prompt.token_ids),
                spliced=mode == "append",
                spans=[bound for span in spans for bound in span],
            )
            state = signed(self._model, state)
        self.result = Continued(mode, kept, reason, spans, state)


def _put_before(tokenizer: Tokenizer, params: Any) -> list[int] | None:
    """The ids that the tokenizer puts before a prompt by itself; None where it puts some elsewhere."""
    if not params.add_special_tokens:
        return []
    bare, whole = (tokenizer.encode("a", add_special_tokens=added) for added in (False, True))
    size = len(whole) - len(bare)
    return whole[:size] if whole[size:] == bare else None


def _moved(last: Last, by: int) -> Last:
    """A turn whose prompt begins ``-by`` ids later."""
    if not by:
        return last
    spans = [max(0, bound + by) for bound in last.state.spans]
    return Last(last.token_ids[-by:], last.output, last.state.model_copy(update={"spans": spans}))


def _unfit(conversation: Conversation, params: Any) -> str | None:
    """Why a request's prompt cannot hold given ids; None when it can."""
    request, arguments = conversation.request, conversation.params.chat_template_kwargs
    if arguments.get("continue_final_message") or not arguments.get("add_generation_prompt", True):
        return "the prompt does not end where a new answer begins"
    if params.truncate_prompt_tokens is not None:
        return "the prompt is truncated"
    if params.return_token_offsets:
        return "token offsets are asked for"
    if getattr(request, "echo", False):
        return "the prompt is echoed"
    return None


class _Splicing:
    """One prompt put together of the last turn and the plain text."""

    def __init__(self, model: Model, door: Door, conversation: Conversation, text: str, last: Last) -> None:
        self._model = model
        self._door = door
        self._conversation = conversation
        self._text = text
        self._last = last

    def run(self, policy: str) -> Spliced | str:
        """The ids, or why none stay."""
        if len(self._last.state.spans) >= 2 * MAX_SPANS:
            return _TOO_MANY
        try:
            pieces = Pieces(self._model.tokenizer)
        except NoAnchor:
            return _NO_TEXT
        try:
            return self._spliced(pieces, policy)
        except SeamMoved:
            return _SEAM

    def _spliced(self, pieces: Pieces, policy: str) -> Spliced | str:
        exact: Spliced | str | None = None
        if policy == "exact" or not self._last.state.spliced:
            exact = splice_exactly(pieces, self._text, self._last, self._edited)
            if policy == "exact" or (isinstance(exact, Spliced) and exact.mode == "full"):
                return exact
        appended = self._appended(pieces, keep_dropped=policy == "append")
        if isinstance(appended, Spliced):
            return appended
        if exact is None:
            exact = splice_exactly(pieces, self._text, self._last, self._edited)
        if isinstance(exact, str) or exact.mode == "full":
            return exact if isinstance(exact, Spliced) else appended
        return Spliced(exact.head, exact.tail, exact.mode, appended, exact.spans)

    def _appended(self, pieces: Pieces, *, keep_dropped: bool) -> Spliced | str:
        answered = self._answered
        if answered is None:
            return _NO_ANSWER
        reason = self._edited()
        if reason is not None:
            return reason
        thought = self._reading is not None and bool(self._reading.reasoning)
        return splice_after(
            pieces,
            self._render,
            self._conversation.messages,
            answered,
            self._text,
            self._last,
            self._model.eos.every,
            keep_dropped=keep_dropped,
            thought=thought,
        )

    @cached_property
    def _answered(self) -> int | None:
        messages = self._conversation.messages
        return next((place for place in range(len(messages) - 1, -1, -1) if is_answer(messages[place])), None)

    @cached_property
    def _reading(self) -> Said | None:
        """What the last output says, if it is what was sent back."""
        if self._answered is None:
            return None
        conversation, model = self._conversation, self._model
        sent = said_in(conversation.messages[self._answered])
        options = self._door.options(model, conversation.request)
        found = (said for said in readings(model, conversation.request, options, self._last) if said.is_told_by(sent))
        return next(found, None)

    def _edited(self) -> str | None:
        if self._answered is None:
            return _NO_ANSWER
        return EDITED if self._reading is None else None

    @property
    def _render(self) -> Render:
        renderer, conversation = self._model.renderer, self._conversation

        def render(messages: Any, generate: bool) -> str:
            with refusals():
                varied = with_messages(conversation, list(messages), generate=generate)
                written = write_conversation(renderer, varied).prompt
            assert isinstance(written, str)  # as the plain prompt's
            return written

        return render
