"""What is known of the fast encoder's equality: for which tokenizer, versions and machine, and over how many texts."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from core.errors import ConfigurationError
from core.tokenizer.fast.encoder import PACKAGE

# The texts that are compared (``corpus.py``). A proof over others is none.
CORPUS = 1
# Fewer encodes prove nothing.
LEAST_ENCODES = 5_000


@dataclass(frozen=True)
class Proof:
    """The result of a comparison.

    ``tokenizer`` is the digest of what was compared (``core.tokenizer.subject``); ``encoder`` and ``reference`` are
    packages with their versions, ``machine`` the architecture, whose instructions the encoder chooses its code by.
    ``corpus`` is the version of the texts, ``encodes`` how many were encoded by both, ``different`` how many of them
    to other ids.
    """

    tokenizer: str
    encoder: str
    reference: str
    machine: str
    corpus: int
    encodes: int
    different: int

    def is_of_here(self, subject: str) -> bool:
        """Whether it speaks of this tokenizer, of the versions and the kind of machine that are here."""
        here = (subject, *surroundings(), CORPUS)
        return here == (self.tokenizer, self.encoder, self.reference, self.machine, self.corpus)

    def holds(self, subject: str) -> bool:
        """Whether it says of this tokenizer, here, that the ids are equal."""
        return self.is_of_here(subject) and self.encodes >= LEAST_ENCODES and self.different == 0


@cache
def surroundings() -> tuple[str, str, str]:
    """The encoder and the reference with their versions, and the machine. The encoder is "" where it is absent."""
    try:
        encoder = f"{PACKAGE} {version(PACKAGE)}"
    except PackageNotFoundError:
        encoder = ""
    return encoder, f"tokenizers {version('tokenizers')}", platform.machine()


def dump_proof(proof: Proof) -> dict[str, Any]:
    """A proof as JSON values."""
    return asdict(proof)


def load_proof(value: object, origin: str) -> Proof:
    """Read a proof; ``origin`` is where it stands, for messages.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(value, Mapping) or set(value) != {entry.name for entry in fields(Proof)}:
        raise ConfigurationError(f"{origin}: the proof of the fast encoder is malformed")
    for entry in fields(Proof):
        found = value[entry.name]
        if type(found).__name__ != entry.type or (isinstance(found, int) and found < 0):
            raise ConfigurationError(f"{origin}: {entry.name} of the fast encoder's proof is malformed")
    return Proof(**value)
