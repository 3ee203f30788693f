"""Token ids to text and back, piece by piece: a piece stands somewhere inside a prompt, never at its start.

Tokenizers treat the start of a text apart (SentencePiece puts a blank there and
takes it away again), and some special tokens eat the white space behind them.
So a piece is decoded behind an anchor, and encoded behind its real neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.tokenizer import Tokenizer


class NoAnchor(Exception):
    """The tokenizer has no text, or no special token that could be an anchor."""


class SeamMoved(Exception):
    """A piece cannot be encoded by itself: its neighbour becomes another token before it."""


class Pieces:
    """Pieces of prompts of one tokenizer. ``added`` are its added tokens by id, ``special`` those flagged special.

    Raises:
        NoAnchor: as above.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise NoAnchor
        self._tokenizer = tokenizer
        self._normalizer = backend.normalizer
        tokens: dict[int, Any] = backend.get_added_tokens_decoder()
        self.added: dict[int, str] = {number: token.content for number, token in tokens.items()}
        self.special = frozenset(number for number, token in tokens.items() if token.special)
        anchors = (
            number
            for number, token in sorted(tokens.items())
            if token.special and not token.rstrip and not token.lstrip and tokenizer.decode([number]) == token.content
        )
        anchor = next(anchors, None)
        if anchor is None:
            raise NoAnchor
        self._anchor = anchor

    def text(self, ids: Sequence[int]) -> str:
        """The text of some ids."""
        whole = self._tokenizer.decode([self._anchor, *ids])
        return whole[len(self.added[self._anchor]) :]

    def encode(self, text: str, before: int) -> list[int]:
        """The ids of a text that follows the token ``before``.

        Raises:
            SeamMoved: ``before`` would not stay what it is.
        """
        if not text:
            return []
        neighbour = before if before in self.added else self._anchor
        ids = self._tokenizer.encode(self.added[neighbour] + text, add_special_tokens=False)
        if not ids or ids[0] != neighbour:
            raise SeamMoved
        return ids[1:]

    def keeps(self, text: str) -> bool:
        """Whether the text is encoded as it is: ids of a text that was changed first do not decode to it."""
        return self._normalizer is None or self._normalizer.normalize_str(text) == text

    def head(self, ids: Sequence[int], text: str, start: int = 0) -> tuple[int, int]:
        """How far ``ids`` say what stands in ``text`` from ``start`` on: the number of ids, and where they end.

        That is all of them, or those up to a special token: between other
        tokens a seam would make tokens that no tokenizer makes.
        """
        done, at, begun = 0, start, 0
        for place, number in enumerate(ids):
            if number not in self.special:
                continue
            piece = self.text(ids[begun : place + 1])
            if not text.startswith(piece, at):
                return done, at
            done = begun = place + 1
            at += len(piece)
        if begun < len(ids):
            piece = self.text(ids[begun:])
            if text.startswith(piece, at):
                return len(ids), at + len(piece)
        return done, at
