"""Incremental detokenization with vLLM's window semantics.

Text is decided one token at a time: the tokens from ``prefix_offset`` on are
decoded with and without the new token, and what the new token adds is the new
text, held back while it ends in an unfinished character. Only the tokens from
``prefix_offset`` on are ever read again, so the window stays a few tokens
long however long the stream is.

The rule, its seeding with the end of the prompt and its handling of ids
outside the vocabulary are vLLM's (``tokenizers/detokenizer_utils.py``,
0.33.0); the recorded answers of ``tests/golden`` (groups plain, seed and
special) hold the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from core.text.unfinished import ByteForm, UnfinishedTail

# How many tokens of the prompt seed the window, and how many more are looked
# at in case some of those are special and skipped.
SEED_TOKENS = 5
SEED_SPARE = 2
REPLACEMENT = "\ufffd"
# Tokens that may wait for the rest of a character between two calls; an honest character has a handful. With the
# tokens before them they fit the window that a state may have.
MOST_HELD = 512
# So many tokens may wait before the last ones are asked first: an ordinary character never gets there.
_FEW = 8


class TextTokenizer(Protocol):
    """What turning ids into text needs of a tokenizer."""

    @property
    def is_fast(self) -> bool: ...

    @property
    def special_ids(self) -> frozenset[int]: ...

    @property
    def all_special_tokens(self) -> list[str]: ...

    @property
    def space_marker(self) -> str | None: ...

    @property
    def joins_exactly(self) -> bool: ...

    @property
    def byte_form(self) -> ByteForm: ...

    def __len__(self) -> int: ...

    def id_to_token(self, token_id: int) -> str | None: ...

    def get_added_vocab(self) -> dict[str, int]: ...

    def convert_tokens_to_string(self, tokens: list[str]) -> str: ...

    def decode(self, ids: int | Sequence[int], skip_special_tokens: bool = False) -> str: ...


@dataclass(frozen=True)
class DecodeOptions:
    """``skip_special_tokens`` and ``spaces_between_special_tokens`` of a request, by the engine's rules."""

    skip_special: bool = True
    spaces_between: bool = True


@dataclass(frozen=True)
class Window:
    """The decode window: token texts and the two offsets into them."""

    tokens: tuple[str, ...] = ()
    prefix_offset: int = 0
    read_offset: int = 0


EMPTY_WINDOW = Window()


def seed_window(tokenizer: TextTokenizer, prompt_token_ids: Sequence[int] | None, skip_special: bool) -> Window:
    """The window primed with the end of the prompt; empty when no prompt ids are given.

    Raises:
        OverflowError: an id does not fit 32 bits.
    """
    if not prompt_token_ids:
        return EMPTY_WINDOW
    skip = tokenizer.special_ids if skip_special else ()
    tail = prompt_token_ids[-(SEED_TOKENS + SEED_SPARE) :]
    tokens = tuple(tokenizer.id_to_token(i) or "" for i in tail if i not in skip)
    return Window(tokens, prefix_offset=max(len(tokens) - SEED_TOKENS, 0), read_offset=len(tokens))


def detokenize(
    tokenizer: TextTokenizer, token_ids: Sequence[int], window: Window, options: DecodeOptions
) -> tuple[str, Window]:
    """Decode ``token_ids`` after ``window``: the new text and the window for the next call.

    An id outside the vocabulary adds nothing. Text that ends in an
    unfinished character is held back until a later token finishes it, but
    never more than ``MOST_HELD`` tokens: a longer window would be no state.

    Raises:
        BadRequest: see :func:`_decode`.
    """
    text, window = _decode(tokenizer, token_ids, window, options)
    if len(window.tokens) - window.read_offset <= MOST_HELD:
        return text, window
    join = _joiner(tokenizer, options)
    held = join(list(window.tokens))[len(join(list(window.tokens[: window.read_offset]))) :]
    last = window.tokens[-SEED_TOKENS:]
    return text + held, Window(last, 0, len(last))


def _decode(
    tokenizer: TextTokenizer, token_ids: Sequence[int], window: Window, options: DecodeOptions
) -> tuple[str, Window]:
    """The rule itself, in time that grows with the ids and the window and no faster.

    The text of a window is joined again for every token only while few
    tokens wait. Beyond that it is joined when it can have become longer and
    complete, which the last tokens tell (:class:`UnfinishedTail`).

    Raises:
        BadRequest: more tokens wait than any output has, and the tokenizer's
            decoder is of a kind whose last tokens do not tell.
    """
    if not token_ids:
        return "", window
    join = _joiner(tokenizer, options)
    size = len(tokenizer)
    skip = tokenizer.special_ids if options.skip_special else frozenset()
    # vLLM trims what lies before the prefix only after a token was decoded.
    tokens = list(window.tokens[window.prefix_offset :])
    read = window.read_offset - window.prefix_offset
    parts: list[str] = []
    before: str | None = None
    tail: UnfinishedTail | None = None
    for token_id in token_ids:
        if 0 <= token_id < size:
            if token_id in skip:
                # Nothing is added, but a held-back window is still looked at again (and changes nothing).
                continue
            token = tokenizer.id_to_token(token_id) or ""
        else:
            token = ""
        tokens.append(token)
        if before is None:
            before = join(tokens[:read])
        if tail is not None:
            tail.add(token)
            if not tail.may_show():
                continue
        text = join(tokens)
        if len(text) > len(before) and not text.endswith(REPLACEMENT):
            parts.append(text[len(before) :])
            del tokens[:read]
            read = len(tokens)
            before = tail = None
        elif tail is not None:
            tail.showed_nothing(len(before) - len(text))
        elif len(tokens) - read >= _FEW:
            tail = UnfinishedTail(tokenizer.byte_form, join, tokens, len(before) - len(text))
    return "".join(parts), Window(tuple(tokens), 0, read)


def detokenize_all(tokenizer: TextTokenizer, token_ids: Sequence[int], window: Window, options: DecodeOptions) -> str:
    """The text of a complete output: what :func:`detokenize` gives, in one pass where that is exact.

    Joining everything at once gives the same text as token by token when the
    decoder treats every token by itself and no character is left unfinished
    or invalid anywhere; otherwise the incremental rule decides.
    """
    if tokenizer.joins_exactly and len(token_ids) > 1:
        size = len(tokenizer)
        skip = tokenizer.special_ids if options.skip_special else frozenset()
        id_to_token = tokenizer.id_to_token
        new = [id_to_token(i) or "" for i in token_ids if 0 <= i < size and i not in skip]
        seed = list(window.tokens[window.prefix_offset :])
        before = tokenizer.convert_tokens_to_string(seed[: window.read_offset - window.prefix_offset])
        text = tokenizer.convert_tokens_to_string(seed + new)
        if REPLACEMENT not in text and text.startswith(before):
            return text[len(before) :]
    return _decode(tokenizer, token_ids, window, options)[0]


class _Joiner(Protocol):
    def __call__(self, tokens: list[str]) -> str: ...


def _joiner(tokenizer: TextTokenizer, options: DecodeOptions) -> _Joiner:
    if tokenizer.is_fast:
        return tokenizer.convert_tokens_to_string
    added = set(tokenizer.get_added_vocab())
    if not added:
        return tokenizer.convert_tokens_to_string
    skipped = set(tokenizer.all_special_tokens) if options.skip_special else set()
    between = " " if options.spaces_between else ""

    def join(tokens: list[str]) -> str:
        # Slow tokenizers cannot join added tokens: these stand by themselves, between runs of ordinary ones.
        texts: list[str] = []
        run: list[str] = []
        for token in tokens:
            if token in skipped:
                continue
            if token not in added:
                run.append(token)
                continue
            if run:
                texts.append(tokenizer.convert_tokens_to_string(run))
                run = []
            texts.append(token)
        if run:
            texts.append(tokenizer.convert_tokens_to_string(run))
        return between.join(texts)

    return join
