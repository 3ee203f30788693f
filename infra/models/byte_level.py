"""Byte-level BPE (GPT-2, tiktoken): from byte strings with ranks to a tokenizer.json.

A tiktoken vocabulary has no list of merges.  They follow from the ranks: the merge that makes a token joins the two
parts that are left when only lower ranks are applied to its bytes.
"""

import base64
from collections.abc import Iterable

from infra.models.tokenizer_json import TokenizerJson, added_token

Ranks = dict[bytes, int]
"""Token bytes -> rank, which is the token id as well."""

# The bytes that stand for themselves in the GPT-2 alphabet; the others get characters from U+0100 on.
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_ORDER = [*_PRINTABLE, *(byte for byte in range(256) if byte not in set(_PRINTABLE))]
"""All bytes in the order in which GPT-2's vocabulary, and those made like it, begin."""


def _alphabet() -> dict[int, str]:
    hidden = BYTE_ORDER[len(_PRINTABLE) :]
    return {**{byte: chr(byte) for byte in _PRINTABLE}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}


ALPHABET = _alphabet()
"""Byte -> the character that stands for it in tokenizer.json."""


def printable(token: bytes) -> str:
    """The token as it is written in tokenizer.json."""
    return "".join(ALPHABET[byte] for byte in token)


def tiktoken_ranks(raw: bytes) -> Ranks:
    """The ranks of a .tiktoken file: a base64 token and its rank on each line."""
    pairs = (line.split() for line in raw.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def _merge_of(token: bytes, rank: int, ranks: Ranks) -> tuple[bytes, bytes] | None:
    """The two parts whose merge makes `token`, None where no merges of lower rank lead to two parts."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        best, where = rank, -1
        for i in range(len(parts) - 1):
            candidate = ranks.get(parts[i] + parts[i + 1], rank)
            if candidate < best:
                best, where = candidate, i
        if where < 0:
            return None
        parts[where : where + 2] = [parts[where] + parts[where + 1]]
    return parts[0], parts[1]


def byte_level_tokenizer(
    ranks: Ranks, pattern: str, added: Iterable[tuple[int, str, bool]], *, nfc: bool = False
) -> TokenizerJson:
    """A byte-level BPE tokenizer.

    `pattern` is the regular expression that splits text before any merge, `added` the added tokens as
    (id, content, special), `nfc` whether text is brought to Unicode's NFC first.
    """
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    merges = [_merge_of(token, rank, ranks) for token, rank in ordered if len(token) > 1]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(*entry) for entry in added],
        "normalizer": {"type": "NFC"} if nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {printable(token): rank for token, rank in ordered},
            "merges": [[printable(left), printable(right)] for left, right in filter(None, merges)],
        },
    }
