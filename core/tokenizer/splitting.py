"""Where a tokenizer cuts a text before anything else: what stands between the cuts can be encoded alone.

The ``tokenizers`` package first finds the added tokens that are not to be
normalized, the longest at each place, and then normalizes, splits and merges
each stretch between them by itself. This module finds the same tokens, and
says nothing where a stretch's ids depend on more than its text: prefixes of
the first word (``Metaspace``, ``add_prefix_space``), tokens that take the
space beside them or want a word's end there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from tokenizers import Tokenizer as RustTokenizer

# Steps that see nothing but the text that they are given.
_NORMALIZERS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Replace"})
_PRE_TOKENIZERS = frozenset({"ByteLevel", "Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit"})
# Vocabularies have some thousand added tokens at most; a pattern of more would take long to compile.
_MOST_TOKENS = 20_000
_LONGEST_TOKEN = 256


class Splitting:
    """The added tokens of a tokenizer at which it cuts every text.

    Parameters
    ----------
    ids:
        The id of each of them.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = dict(ids)
        self._find = re.compile(f"({longest_of(ids)})").split

    def split(self, text: str) -> list[str | int]:
        """The stretches of a text and the ids of the tokens between them, in order."""
        ids = self.ids
        # Of a split by a group every second part is what the group matched.
        return [ids[part] if place % 2 else part for place, part in enumerate(self._find(text)) if part]


def splitting_of(backend: RustTokenizer) -> Splitting | None:
    """How a tokenizer cuts texts; None where stretches cannot be encoded alone, or there is nothing to cut at."""
    if backend.encode_special_tokens or not _is_local(backend):
        return None
    ids: dict[str, int] = {}
    for token_id, token in backend.get_added_tokens_decoder().items():
        if token.lstrip or token.rstrip or token.single_word or len(token.content) > _LONGEST_TOKEN:
            return None
        if not token.normalized and token.content:
            ids[token.content] = token_id
    return Splitting(ids) if 0 < len(ids) <= _MOST_TOKENS else None


def _is_local(backend: RustTokenizer) -> bool:
    """Whether normalizing, splitting and merging a stretch depends on its text alone."""
    if getattr(backend.model, "dropout", None):
        return False
    return all(
        _knows(step, known)
        for step, known in ((backend.normalizer, _NORMALIZERS), (backend.pre_tokenizer, _PRE_TOKENIZERS))
    )


def _knows(step: Any, known: frozenset[str]) -> bool:
    if step is None:
        return True
    # The package gives a step's parameters in no other way.
    return all(
        part["type"] in known and not part.get("add_prefix_space") for part in _parts(orjson.loads(step.__getstate__()))
    )


def _parts(step: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if step["type"] != "Sequence":
        return [step]
    nested = step["normalizers"] if "normalizers" in step else step["pretokenizers"]
    return [part for one in nested for part in _parts(one)]


def longest_of(texts: Iterable[str]) -> str:
    """A pattern that matches the longest of ``texts`` that begins at a place, in steps of that text's length."""
    root: dict[str, Any] = {}
    for text in texts:
        node = root
        for character in text:
            node = node.setdefault(character, {})
        node[""] = {}
    return _pattern(root)


def _pattern(node: Mapping[str, Any]) -> str:
    straight = ""
    # A stretch without a branch is written out: the pattern nests no deeper than the texts branch.
    while len(node) == 1 and "" not in node:
        ((character, node),) = node.items()
        straight += re.escape(character)
    branches = [re.escape(character) + _pattern(child) for character, child in sorted(node.items()) if character]
    if not branches:
        return straight
    return f"{straight}(?:{'|'.join(branches)}){'?' if '' in node else ''}"
