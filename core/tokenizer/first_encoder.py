"""Encoding the first texts of a process before ``tokenizers`` has read its merges.

``tokenizers`` takes a third of a second to build itself from a ``tokenizer.json``, most of it for some hundred thousand
merges that a short text has no use for. A bundle has them packed and sorted (``decode_table.MERGES_NAME``), and what
little a text needs is looked up there. It is much slower for each text, so it encodes until that has cost about as
much as ``tokenizers`` takes to load, and then never again.

The merging is that of byte pair encoding: of all neighbours in a word the pair that stands first in the list of
merges, and of equal pairs the leftmost, becomes one, until there is none. The words are made by ``tokenizers``' own
normalizer and pre-tokenizer. ``derender bundle`` compares the ids with those of ``tokenizers`` and writes the file only
where none differ (``merges.py``).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import orjson
from tokenizers import Tokenizer as RustTokenizer

from core.errors import ConfigurationError
from core.tokenizer.decode_table import MERGES_NAME
from core.tokenizer.splitting import Splitting

_VERSION = 1
# Characters that are read here and bytes of new words that are merged, together: about as much work as loading
# ``tokenizers`` is (a byte takes 2 to 6 microseconds).
_MOST_WORK = 80_000
# A word's cost grows with the square of its length: from here on it is more than a byte's share.
_LONGEST_WORD = 256
_LONGEST_TEXT = 8_000


class FirstEncoder:
    """Encodes short texts from packed merges, as long as that is worth it. May be used by several threads.

    ``splitting`` is where the tokenizer cuts a text, ``around`` the ids that it puts before and after one, ``subject``
    a digest of the tokenizer that it was made of.
    """

    def __init__(
        self,
        header: Mapping[str, Any],
        keys: memoryview,
        values: memoryview,
        vocabulary: Callable[[], Mapping[str, int]],
    ) -> None:
        self.splitting = Splitting(header["cuts"])
        before, after = header["around"]
        self.around: tuple[list[int], list[int]] = (before, after)
        self.subject: str = header["subject"]
        self._single: Mapping[str, int] = header["single"]
        self._keys = keys
        self._values = values
        # Some tokenizers take a word that is a token as it is, whatever its merges would make of it.
        self._whole = vocabulary() if header["whole"] else {}
        self._words: dict[str, list[int]] = {}
        self._left = _MOST_WORK
        steps = _without_vocabulary(header["normalizer"], header["pre_tokenizer"])
        self._normalizer, self._pre_tokenizer = steps.normalizer, steps.pre_tokenizer

    def ids(self, text: str, unbounded: bool = False) -> list[int] | None:
        """The ids of a text without cuts; None where ``tokenizers`` has to be asked.

        With ``unbounded`` it does not count what it has done.
        """
        if not unbounded:
            if len(text) > min(self._left, _LONGEST_TEXT):
                self._left = 0
                return None
            self._left -= len(text)
        try:
            written = text if self._normalizer is None else self._normalizer.normalize_str(text)
            words = self._pre_tokenizer.pre_tokenize_str(written)
        except Exception:  # half a surrogate pair: the answer is that of ``tokenizers``
            return None
        found: list[int] = []
        for word, _ in words:
            ids = self._words.get(word)
            if ids is None:
                whole = self._whole.get(word)
                if whole is None:
                    if len(word) > (_LONGEST_WORD if unbounded else min(self._left, _LONGEST_WORD)):
                        return None
                    if not unbounded:
                        self._left -= len(word)
                ids = self._words[word] = self._merged(word) if whole is None else [whole]
            found += ids
        return found

    def _merged(self, word: str) -> list[int]:
        ids = [self._single[character] for character in word]
        pairs = [self._rank(left, right) for left, right in pairwise(ids)]
        while pairs and (best := min(pairs)) < _NO_MERGE:
            place = pairs.index(best)
            ids[place : place + 2] = [best & 0xFFFFFFFF]
            del pairs[place]
            if place:
                pairs[place - 1] = self._rank(ids[place - 1], ids[place])
            if place < len(pairs):
                pairs[place] = self._rank(ids[place], ids[place + 1])
        return ids

    def _rank(self, left: int, right: int) -> int:
        """Of a pair of ids: its place among the merges, 32 bits, and the id that it becomes, 32 bits."""
        key = left << 32 | right
        place = bisect_left(self._keys, key)
        if place < len(self._keys) and self._keys[place] == key:
            value: int = self._values[place]
            return value
        return _NO_MERGE


_NO_MERGE = 1 << 64


def pack_merges(
    source: bytes, cuts: Mapping[str, int], around: tuple[list[int], list[int]], subject: str
) -> bytes | None:
    """The file of a ``tokenizer.json``; None where its ids are not made by plain merges of bytes.

    ``cuts`` are the added tokens at which it cuts every text, with their ids; see :class:`FirstEncoder` for the rest.
    """
    spec = orjson.loads(source)
    model = spec["model"]
    plain = model.get("type") == "BPE" and not any(model.get(name) for name in _MORE)
    if not plain or not _ends_in_bytes(spec.get("pre_tokenizer")):
        return None
    vocabulary: Mapping[str, int] = model["vocab"]
    single = {character: vocabulary[character] for character in _byte_characters() if character in vocabulary}
    if len(single) < 256:
        return None
    ranks: dict[int, int] = {}
    for number, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        ranks[vocabulary[left] << 32 | vocabulary[right]] = number << 32 | vocabulary[left + right]
    header = {
        "version": _VERSION,
        "subject": subject,
        "cuts": dict(cuts),
        "around": list(around),
        "single": single,
        "normalizer": spec.get("normalizer"),
        "pre_tokenizer": spec.get("pre_tokenizer"),
        "merges": len(ranks),
        "whole": bool(model.get("ignore_merges")),
    }
    keys = sorted(ranks)
    numbers = _little(array("Q", [*keys, *(ranks[key] for key in keys)]))
    return orjson.dumps(header, option=orjson.OPT_SORT_KEYS) + b"\n" + numbers.tobytes()


def _little(numbers: array[int]) -> array[int]:
    """Between this machine's order of bytes and the file's."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


# What changes the ids of a word beyond its merges.
_MORE = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")


def unpack_merges(data: bytes, vocabulary: Callable[[], Mapping[str, int]]) -> FirstEncoder:
    """Read what :func:`pack_merges` wrote; ``vocabulary`` are the words that are tokens, where that matters.

    Raises:
        ConfigurationError: it is something else.
    """
    try:
        end = data.index(b"\n") + 1
        header = orjson.loads(data[:end])
        count = header["merges"]
        if header["version"] != _VERSION or len(data) != end + 16 * count:
            raise ConfigurationError(f"{MERGES_NAME} is not of this release, or cut")
        numbers = memoryview(_little(array("Q", data[end:])))
        return FirstEncoder(header, numbers[:count], numbers[count:], vocabulary)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ConfigurationError(f"{MERGES_NAME} does not hold merges: {exc!r}") from exc


def _without_vocabulary(normalizer: Any, pre_tokenizer: Any) -> RustTokenizer:
    """A tokenizer with these steps, which knows no word."""
    model = {"type": "BPE", "vocab": {}, "merges": []}
    spec = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "model": model,
    }
    return RustTokenizer.from_buffer(orjson.dumps({**spec, "post_processor": None, "decoder": None}))


def _ends_in_bytes(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    """Whether words come out in the characters that stand for bytes."""
    if pre_tokenizer is None:
        return False
    steps = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    return bool(steps) and steps[-1]["type"] == "ByteLevel"


def _byte_characters() -> list[str]:
    """The characters that stand for the 256 bytes in byte-level vocabularies: themselves where they are printable."""
    from tokenizers.pre_tokenizers import ByteLevel  # late: of the bundle alone

    return ByteLevel.alphabet()
