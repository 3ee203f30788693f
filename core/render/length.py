"""Whether a text has far more tokens than a prompt can have, found out without tokenizing it whole.

A tokenizer takes some 300 bytes for each token, and a text that is cut to its
last ten tokens, or only counted, is tokenized whole. vLLM bounds such a text by
its characters, for the longest tokens there are: five million digits pass. Here
a text that may hold many times the tokens of the context is counted piece by
piece first, and refused when the pieces have too many.
"""

from __future__ import annotations

from core.errors import BadRequest
from core.tokenizer import Tokenizer

# Texts up to so many characters for each token of the context are tokenized as they are: honest ones have two to six.
_CHARS = 8
# And texts of this length: 40 MB at most.
_FREE_CHARS = 131_072
# None that is longer, however long the context: 600 MB at most.
_MOST_CHARS = 2**21
# Beyond, a text may have so many times the tokens of the context.
_TIMES = 2
_PIECE = 32_768


def check_length(tokenizer: Tokenizer, text: str, max_model_len: int) -> None:
    """Refuse a text with more than twice the tokens that fit the context, once it is long enough to have them.

    Where a piece ends the count may be off by a few tokens, which a limit of
    twice the context does not notice.

    Raises:
        BadRequest: says the limit in tokens.
    """
    if len(text) <= min(max(_CHARS * max_model_len, _FREE_CHARS), _MOST_CHARS):
        return
    most = _TIMES * max_model_len
    count = 0
    for start in range(0, len(text), _PIECE):
        count += len(tokenizer.encode(text[start : start + _PIECE], add_special_tokens=False))
        if count > most:
            raise BadRequest(
                f"the text has more than {most} tokens, twice the context of {max_model_len}; "
                f"such a text is not tokenized, not even to cut or count it",
                "prompt",
            )
