"""Whether a growing text can be shown, from its last tokens alone.

Joining a whole window for every token of it takes time that grows with the
square of the tokens that wait. They wait while the text ends in U+FFFD or is no
longer than what was shown. What the text ends in is decided by its last few
bytes, which are in the last few tokens; how much longer it can have become, by
how much was added. This module looks at nothing else. It may say "yes" where
joining then says "no" (the caller tells it), never the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from core.errors import BadRequest

_REPLACEMENT = "\ufffd"
# The longest character has four bytes, and a token that adds text at all adds one.
_LAST = 4
# Where the last tokens do not tell, so many may wait: far more than an output has, few enough to join each time.
_MOST_UNTOLD = 1024


class ByteForm(Enum):
    """How a tokenizer's decoder makes characters of bytes.

    ``JOINED``: the bytes of all tokens are one sequence (byte-level BPE, tekken).
    ``RUNS``: tokens are text, but for tokens of one byte ("<0xE6>"), whose
    unbroken runs are characters, or are U+FFFD for every byte (SentencePiece).
    ``UNKNOWN``: another decoder.
    """

    JOINED = "joined"
    RUNS = "runs"
    UNKNOWN = "unknown"


class UnfinishedTail:
    """The end of a window whose text was joined and could not be shown.

    Parameters
    ----------
    join:
        The decoder: tokens to text.
    tokens:
        The window's tokens up to now.
    missing:
        Characters that the text lacks to be as long as what was shown, at least 0 if it ends in a character.
    """

    def __init__(self, form: ByteForm, join: Callable[[list[str]], str], tokens: Iterable[str], missing: int) -> None:
        self._form = form
        self._join = join
        self._missing = missing
        self._gained = 0
        self._last: list[str] = []
        self._run = _Run()
        self._count = 0
        for token in tokens:
            self._take(token)
        # A text that ends unfinished can turn into a shorter one: what it lacks is known only of a finished one.
        self._counts = not self._unfinished()

    def add(self, token: str) -> None:
        """The window has one more token."""
        self._take(token)
        self._count += 1
        self._gained += len(token)
        if self._form is ByteForm.UNKNOWN and self._count > _MOST_UNTOLD:
            raise BadRequest(f"more than {_MOST_UNTOLD} tokens in a row are no complete text", "token_ids")

    def may_show(self) -> bool:
        """Whether the text may be complete, and longer than what was shown."""
        if self._form is ByteForm.UNKNOWN:
            return True
        if self._counts and self._gained <= self._missing:
            return False
        return not self._unfinished()

    def showed_nothing(self, missing: int) -> None:
        """The text was joined and could not be shown; it lacks ``missing`` characters."""
        self._missing = missing
        self._gained = 0
        self._counts = True

    def _take(self, token: str) -> None:
        if self._form is ByteForm.JOINED:
            # A token without text (an unknown id, a hidden one) has no bytes, either.
            if self._join([token]):
                self._last = [*self._last[1 - _LAST :], token]
        elif self._form is ByteForm.RUNS:
            self._run.feed(token)

    def _unfinished(self) -> bool:
        if self._form is ByteForm.JOINED:
            return self._join(self._last).endswith(_REPLACEMENT)
        return self._run.unfinished


class _Run:
    """The run of byte tokens at the end of a window, as a UTF-8 automaton."""

    def __init__(self) -> None:
        self._broken = False
        self._wanted = 0
        # The bounds of the next byte: some lead bytes narrow them (no overlong forms, no surrogates).
        self._low, self._high = 0x80, 0xBF
        self._code = 0
        self._ends_in_replacement = False

    @property
    def unfinished(self) -> bool:
        return self._broken or self._wanted > 0 or self._ends_in_replacement

    def feed(self, token: str) -> None:
        byte = _byte_of(token)
        if byte is None:
            # Text ends a run, and so does a token without any.
            self._ends_in_replacement = token.endswith(_REPLACEMENT) if token else self.unfinished
            self._broken, self._wanted = False, 0
            return
        self._ends_in_replacement = False
        if self._broken:
            return
        if self._wanted:
            self._broken = not self._low <= byte <= self._high
            self._wanted -= 1
            self._low, self._high = 0x80, 0xBF
            self._code = self._code << 6 | byte & 0x3F
            # Bytes can spell U+FFFD itself, which is not told from a broken character.
            self._ends_in_replacement = not self._wanted and self._code == ord(_REPLACEMENT)
        elif byte >= 0x80:
            self._lead(byte)

    def _lead(self, byte: int) -> None:
        if not 0xC2 <= byte <= 0xF4:
            self._broken = True
            return
        self._wanted = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        self._code = byte & (0x3F >> self._wanted)
        self._low = {0xE0: 0xA0, 0xF0: 0x90}.get(byte, 0x80)
        self._high = {0xED: 0x9F, 0xF4: 0x8F}.get(byte, 0xBF)


def _byte_of(token: str) -> int | None:
    """The byte of a token like "<0xE6>"."""
    if len(token) != 6 or not token.startswith("<0x") or token[5] != ">":
        return None
    try:
        return int(token[3:5], 16)
    except ValueError:
        return None
