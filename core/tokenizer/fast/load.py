"""Giving a tokenizer its fast encoder, where a proof says that it may have it."""

from __future__ import annotations

import hashlib

from core.tokenizer.adapter import FastTokenizer
from core.tokenizer.fast.encoder import FastEncoder, is_installed, make_encoder
from core.tokenizer.fast.proof import Proof
from core.tokenizer.interface import Tokenizer
from core.tokenizer.subject import subject_of


def use_fast_encoder(tokenizer: Tokenizer, proof: Proof) -> bool:
    """Load the encoder beside ``tokenizers``, and use it from then on. False where the proof is not of this tokenizer.

    Takes some seconds; the tokenizer may be used meanwhile.
    """
    if not isinstance(tokenizer, FastTokenizer) or not is_installed():
        return False
    source = tokenizer.read_source()
    if not proof.holds(subject_of_source(tokenizer, source)):
        return False
    encoder = encoder_of(tokenizer, source)
    if encoder is None:
        return False
    tokenizer.encode_by(encoder.ids)
    return True


def subject_of_source(tokenizer: FastTokenizer, source: bytes) -> str:
    """What a proof has to be of, to be of the tokenizer with this ``tokenizer.json``."""
    return subject_of(hashlib.sha256(source).hexdigest(), tokenizer.added, tokenizer.splits_special_tokens)


def encoder_of(tokenizer: FastTokenizer, source: bytes) -> FastEncoder | None:
    """The encoder of a tokenizer with the ``tokenizer.json`` ``source``; None where the package cannot be it."""
    return make_encoder(source.decode("utf-8"), tokenizer.added, tokenizer.splits_special_tokens)
