"""A digest of all that a tokenizer's ids depend on, by which what was made of it, or proved of it, is known again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import orjson
from tokenizers import AddedToken


def subject_of(source_digest: str, added: Sequence[AddedToken], splits_special_tokens: bool) -> str:
    """Of the SHA-256 of ``tokenizer.json``, the tokens that a configuration adds, and how it splits; in hexadecimal."""
    tokens = [[one.content, one.special, one.single_word, one.lstrip, one.rstrip, one.normalized] for one in added]
    return hashlib.sha256(orjson.dumps([source_digest, tokens, splits_special_tokens])).hexdigest()
