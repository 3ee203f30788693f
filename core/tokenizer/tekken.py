"""``tekken.json``: the vocabulary of a Mistral model, as far as decoding needs it.

Special tokens have the first ids, then come byte sequences, of which some are
only part of a character. A *piece* is a token as a string: its text, with every
byte that is not text by itself as one character from the end of the Unicode
range (U+10FF80 for byte 80 ... U+10FFFF for byte FF, which no vocabulary
holds). So a decode window is a list of strings that JSON can carry, and
nothing is lost. This module must never encode text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from core.errors import ConfigurationError

# The largest published vocabularies have some 300,000 tokens; a larger one is a damaged file.
_MAX_SIZE = 2**24
# The special tokens of files that list none (versions up to 7), in id order.
_UNLISTED = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"),
    *("[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
_LAST_UNLISTED_VERSION = 7
_VERSION = re.compile(r"v(\d{1,4})")

_FIRST_BYTE = 0x80
_FIRST_MARK = 0x10FF80
_MARK = re.compile("[\U0010ff80-\U0010ffff]")
# How every character that could be taken for a mark begins in UTF-8.
_MARK_LEAD = b"\xf4\x8f"
# The standard library's own form of a byte that is not text, and ours: JSON carries no lone surrogates.
_SURROGATE = 0xDC00
_TO_MARK = {_SURROGATE + byte: _FIRST_MARK + byte - _FIRST_BYTE for byte in range(_FIRST_BYTE, 256)}
_TO_SURROGATE = {mark: surrogate for surrogate, mark in _TO_MARK.items()}


@dataclass(frozen=True)
class TekkenVocabulary:
    """``pieces[i]`` is the piece of id ``i``; the first ``special_count`` are special. ``version`` is 3 for "v3"."""

    version: int
    pieces: list[str]
    special_count: int

    @property
    def special(self) -> list[str]:
        """The texts of the special tokens, in id order."""
        return self.pieces[: self.special_count]


def read_tekken(raw: bytes) -> TekkenVocabulary:
    """Read the bytes of a ``tekken.json``.

    Raises:
        ConfigurationError: it is not one, or is damaged.
    """
    try:
        spec = orjson.loads(raw)
        config = spec["config"]
        size, special_count = int(config["default_vocab_size"]), int(config["default_num_special_tokens"])
        version = _version(config["version"])
        if not 0 < special_count <= size <= _MAX_SIZE:
            raise ValueError(f"{special_count} special tokens in a vocabulary of {size}")
        pieces = _special_tokens(spec.get("special_tokens"), special_count, version)
        entries = spec["vocab"][: size - special_count]
        ranks = [entry["rank"] for entry in entries]
        if ranks != list(range(size - special_count)):
            raise ValueError("the vocabulary is not in the order of its ranks, or incomplete")
        pieces += [piece_of(b64decode(entry["token_bytes"], validate=True)) for entry in entries]
    except (KeyError, TypeError, ValueError, AttributeError) as exc:  # JSON and base64 errors are ValueErrors
        raise ConfigurationError(f"tekken.json is not a tekken vocabulary: {exc!r}") from exc
    return TekkenVocabulary(version, pieces, special_count)


def piece_of(raw: bytes) -> str:
    """The piece of a byte sequence."""
    if _MARK_LEAD in raw:  # may be a character that serves as a mark: take no character of more than one byte
        return raw.decode("ascii", "surrogateescape").translate(_TO_MARK)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape").translate(_TO_MARK)


def join_pieces(pieces: Iterable[str]) -> str:
    """The text of a run of pieces; bytes that are no text together, either, become U+FFFD."""
    text = "".join(pieces)
    if _MARK.search(text) is None:
        return text
    return text.translate(_TO_SURROGATE).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _version(name: str) -> int:
    match = _VERSION.fullmatch(name)
    if match is None:
        raise ValueError(f"version {name!r} is not understood")
    return int(match[1])


def _special_tokens(listed: list[dict[str, object]] | None, count: int, version: int) -> list[str]:
    """The special tokens by id; ids that the file does not name get names that say their id."""
    if listed is None:
        if version > _LAST_UNLISTED_VERSION:
            raise ValueError("special_tokens are missing")
        names = list(_UNLISTED)
    else:
        names = [str(entry["token_str"]) for entry in listed]
        if [entry["rank"] for entry in listed] != list(range(len(listed))):
            raise ValueError("special_tokens are not in the order of their ranks")
    names += [f"<SPECIAL_{i}>" for i in range(len(names), count)]
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"special_tokens are not {count} different ones")
    return names
