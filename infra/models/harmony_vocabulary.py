"""The o200k vocabulary of gpt-oss, read out of the harmony library.

The library holds the vocabulary inside its compiled extension, so it has to be imported and asked token by token.
Many tokens are not valid UTF-8 by themselves (half a character); Python's surrogate escapes carry their bytes
through the library's text interface without loss.
"""

from infra.models.byte_level import Ranks

SIZE = 199998
"""Tokens before the special ones."""


def harmony_ranks(size: int = SIZE) -> Ranks:
    """The bytes of every token id below `size`.

    Raises ValueError where two tokens have the same bytes: the library is then not one that decodes exactly.
    """
    from openai_harmony import HarmonyEncodingName, load_harmony_encoding

    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    ranks: Ranks = {}
    for token_id in range(size):
        text: str = encoding.decode([token_id], errors="surrogateescape")
        token = text.encode("utf-8", errors="surrogateescape")
        if not token or ranks.setdefault(token, token_id) != token_id:
            raise ValueError(f"the harmony library gives no bytes of its own for token {token_id}")
    return ranks
