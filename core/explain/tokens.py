"""The text of each token of an output or a prompt, special tokens among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.text.detokenizer import EMPTY_WINDOW, DecodeOptions, Window, detokenize
from core.tokenizer import Tokenizer

_SHOWN = DecodeOptions(skip_special=False, spaces_between=False)


def token_texts(tokenizer: Tokenizer, ids: Sequence[int], window: Window = EMPTY_WINDOW) -> Iterator[str]:
    """What each of ``ids`` adds to the text; ``window`` holds the tokens before them."""
    for number in ids:
        text, window = detokenize(tokenizer, [number], window, _SHOWN)
        yield text
