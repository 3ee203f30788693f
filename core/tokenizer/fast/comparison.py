"""The fast encoder's ids beside those of ``tokenizers``, text by text."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from core.tokenizer.adapter import FastTokenizer
from core.tokenizer.fast.corpus import KINDS, corpus
from core.tokenizer.fast.encoder import is_installed
from core.tokenizer.fast.load import encoder_of, subject_of_source
from core.tokenizer.fast.proof import CORPUS, Proof, surroundings
from core.tokenizer.interface import Tokenizer

# What a bundle's proof takes: some seconds for most tokenizers.
ENCODES = 20_000
_PIECES = 20_000
_SHOWN = 5


@dataclass
class Comparison:
    """What was compared: encodes by kind of text, how many the guard kept back, and those with other ids."""

    encodes: Counter[str] = field(default_factory=Counter)
    guarded: int = 0
    different: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)


def prove(tokenizer: Tokenizer, encodes: int = ENCODES) -> Proof | None:
    """Compare the two over about ``encodes`` texts; None where there is no fast encoder for such a tokenizer."""
    if not isinstance(tokenizer, FastTokenizer) or not is_installed():
        return None
    source = tokenizer.read_source()
    encoder = encoder_of(tokenizer, source)
    if encoder is None:
        return None
    found = compare(tokenizer, encoder.ids, encodes)
    encoded = sum(found.encodes.values()) - found.guarded
    subject = subject_of_source(tokenizer, source)
    return Proof(subject, *surroundings(), CORPUS, encoded, sum(found.different.values()))


def compare(
    tokenizer: FastTokenizer, ids: Callable[[str], list[int] | None], encodes: int, seed: int = 0
) -> Comparison:
    """``ids`` beside the ids of ``tokenizers``, over about ``encodes`` texts.

    ``ids`` gives None for a text that it leaves to ``tokenizers``.
    """
    found = Comparison()
    for kind, text in texts(tokenizer, encodes, seed):
        theirs = ids(text)
        found.encodes[kind] += 1
        if theirs is None:
            found.guarded += 1
        elif theirs != tokenizer.reference_ids(text):
            found.different[kind] += 1
            if len(found.shown) < _SHOWN:
                found.shown.append(text[:200])
    return found


def texts(tokenizer: FastTokenizer, encodes: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """About ``encodes`` texts with their kinds. The same for the same tokenizer, Python and ``seed``."""
    chance = random.Random(seed)
    pieces = [tokenizer.decode([chance.randrange(tokenizer.vocab_size)]) for _ in range(_PIECES)]
    return corpus(list(tokenizer.get_added_vocab()), pieces, max(1, encodes // len(KINDS)), seed)
