"""Giving a tokenizer its fast encoder, where a proof says that it may have it."""

from __future__ import annotations

from core.tokenizer.adapter import FastTokenizer
from core.tokenizer.fast.encoder import FastEncoder, is_installed, make_encoder
from core.tokenizer.fast.proof import Proof, subject_of
from core.tokenizer.interface import Tokenizer


def use_fast_encoder(tokenizer: Tokenizer, proof: Proof) -> bool:
    """Load the encoder beside ``tokenizers``, and use it from then on. False where the proof is not of this tokenizer.

    Takes some seconds; the tokenizer may be used meanwhile.
    """
    if not isinstance(tokenizer, FastTokenizer) or not is_installed():
        return False
    source = tokenizer.read_source()
    if not proof.holds(subject_of(source, tokenizer.added, tokenizer.splits_special_tokens)):
        return False
    encoder = encoder_of(tokenizer, source)
    if encoder is None:
        return False
    tokenizer.encode_by(encoder.ids)
    return True


def subject_of_tokenizer(tokenizer: FastTokenizer) -> str:
    """What a proof has to be of, to be of this tokenizer."""
    return subject_of(tokenizer.read_source(), tokenizer.added, tokenizer.splits_special_tokens)


def encoder_of(tokenizer: FastTokenizer, source: bytes) -> FastEncoder | None:
    """The encoder of a tokenizer with the ``tokenizer.json`` ``source``; None where the package cannot be it."""
    return make_encoder(source.decode("utf-8"), tokenizer.added, tokenizer.splits_special_tokens)
