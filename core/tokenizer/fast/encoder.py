"""A tokenizer in the package ``fastokens``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from tokenizers import AddedToken

PACKAGE = "fastokens"
# Where a pattern ignores case, "'ſ" (U+017F) is the contraction "'s" for ``tokenizers``, and none for the package.
GUARDED = "\u017f"
# Long enough for the package to let other threads run while it makes what its first text needs.
_FIRST = "the first text " * 8_000


class FastEncoder:
    """Encodes as the tokenizer does that it was made of, or says that it does not. May be used by several threads."""

    def __init__(self, native: Any, splits_special_tokens: bool) -> None:
        self._encode = native.encode
        self._split = splits_special_tokens

    def ids(self, text: str) -> list[int] | None:
        """The ids of a text without special tokens around it; None where ``tokenizers`` has to be asked."""
        if GUARDED in text:
            return None
        try:
            found: list[int] = self._encode(text, False, self._split).ids
        except Exception:  # half a surrogate pair, a limit of its regular expressions
            return None
        except BaseException as exc:
            if type(exc).__name__ != "PanicException":  # what Rust code raises is no Exception
                raise
            return None
        return found


def is_installed() -> bool:
    """Whether the package is here."""
    return find_spec(PACKAGE) is not None


def make_encoder(
    tokenizer_json: str, added: Sequence[AddedToken], splits_special_tokens: bool = False
) -> FastEncoder | None:
    """The encoder of a ``tokenizer.json`` with tokens that a configuration adds; None where it does not know its parts.

    Takes some seconds of CPU time. Other threads run meanwhile, but for about a tenth of it.
    """
    # A pool of threads does not survive a snapshot or a fork, and one text at a time needs none.
    os.environ.setdefault("FASTOKENS_BPE_THREADS", "1")
    import fastokens  # late: optional, ten megabytes

    try:
        native = fastokens.Tokenizer.from_json_str(tokenizer_json)
        native.no_truncation()
        native.no_padding()
        native.add_tokens(list(added))
        native.encode(_FIRST)
    except (ValueError, TypeError, NotImplementedError):
        return None
    return FastEncoder(native, splits_special_tokens)
