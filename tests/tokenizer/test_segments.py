"""What was encoded before, or beside, never shows in the ids of a text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken
from tokenizers import Tokenizer as RustTokenizer

from core.bundle.folder import FolderFiles
from core.kept import Kept
from core.tokenizer import FastTokenizer, Tokenizer, load_tokenizer
from core.tokenizer.fast.corpus import corpus
from core.tokenizer.segments import SegmentEncoder
from core.tokenizer.splitting import longest_of, splitting_of
from tests.support.models import FAMILIES

SPLIT = tuple(family for family in FAMILIES if family != "mistral-spm")
SMALL, LARGE = 20_000, 2**24


@pytest.fixture(scope="module")
def cached(models_dir: Path) -> Callable[[str, int], FastTokenizer]:
    """The tokenizer of a family with a cache of so many bytes, loaded once."""
    loaded: dict[tuple[str, int], Any] = {}

    def load(family: str, size: int) -> FastTokenizer:
        if (family, size) not in loaded:
            loaded[family, size] = load_tokenizer(FolderFiles(models_dir / family), cache_bytes=size)
        return loaded[family, size]  # type: ignore[no-any-return]

    return load


def texts(tokenizer: Tokenizer, each: int) -> Iterator[str]:
    """Strings of every kind that tokenizers can differ over, several times each, and conversations that grow."""
    chance = random.Random(14)
    added = list(tokenizer.get_added_vocab())
    pieces = [tokenizer.decode([chance.randrange(len(tokenizer))]) for _ in range(2_000)]
    strings = [text for _, text in corpus(added, pieces, each)]
    yield from strings
    for _ in range(20):
        conversation = ""
        for _ in range(12):
            marks = chance.choices(added, k=3)
            turn = f"{marks[0]}user\n{chance.choice(strings)}{marks[1]}\n{chance.choice(strings)}{marks[2]}"
            conversation += chance.choice((turn, turn, chance.choice(strings), conversation[-200:]))
            yield conversation
    yield from chance.sample(strings, len(strings))


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_equal_with_a_cache_and_without(
    cached: Callable[[str, int], FastTokenizer], models_dir: Path, family: str
) -> None:
    plain = RustTokenizer.from_file(str(models_dir / family / "tokenizer.json"))
    small, large = cached(family, SMALL), cached(family, LARGE)
    for number, text in enumerate(texts(large, 40)):
        special = number % 3 == 0
        ids = plain.encode(text, add_special_tokens=special).ids
        assert large.encode(text, special) == ids, text
        assert small.encode(text, special) == ids, text
        limit = number % 70
        cut = large.encode(text, special, truncation=True, max_length=limit)
        offsets, _ = large.encode_prompt(text, special, True, limit, offsets=True)
        assert cut == offsets, (text, limit)


@pytest.mark.parametrize("family", SPLIT)
def test_what_was_encoded_is_not_encoded_again(models_dir: Path, family: str) -> None:
    backend = RustTokenizer.from_file(str(models_dir / family / "tokenizer.json"))
    asked: list[str] = []

    def encode(parts: Any) -> list[list[int]]:
        asked.extend(parts)
        return [found.ids for found in backend.encode_batch_fast(parts, add_special_tokens=False)]

    splitting = splitting_of(backend)
    assert splitting is not None
    encoder = SegmentEncoder(splitting, encode, Kept(LARGE))
    mark = next(
        token.content for token in backend.get_added_tokens_decoder().values() if token.special and not token.normalized
    )
    conversation = "".join(f"{mark}a turn of number {number}{mark}\n" for number in range(40))
    encoder.ids(conversation)
    assert len(asked) == 41
    assert encoder.ids(conversation + "and one more") == backend.encode(conversation + "and one more").ids
    assert asked[41:] == ["\nand one more"]


def test_a_tokenizer_that_looks_beyond_a_stretch_is_not_cut(models_dir: Path) -> None:
    assert splitting_of(RustTokenizer.from_file(str(models_dir / "mistral-spm" / "tokenizer.json"))) is None
    source = json.loads((models_dir / "llama3" / "tokenizer.json").read_bytes())

    def changed(**changes: Any) -> RustTokenizer:
        return RustTokenizer.from_str(json.dumps({**source, **changes}))

    assert splitting_of(changed()) is not None
    assert splitting_of(changed(normalizer={"type": "Prepend", "prepend": "▁"})) is None
    prefixed = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    assert splitting_of(changed(pre_tokenizer=prefixed)) is None
    nested = {"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": [prefixed]}]}
    assert splitting_of(changed(pre_tokenizer=nested)) is None
    assert splitting_of(changed(model={**source["model"], "dropout": 0.1})) is None
    for flag in ("lstrip", "rstrip", "single_word"):
        backend = changed()
        backend.add_tokens([AddedToken("<|other|>", normalized=False, **{flag: True})])
        assert splitting_of(backend) is None
    backend = changed()
    backend.encode_special_tokens = True
    assert splitting_of(backend) is None


@pytest.mark.parametrize("flags", [{}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"normalized": True}])
def test_added_tokens_of_every_kind_give_the_ids_of_the_package(models_dir: Path, flags: dict[str, bool]) -> None:
    added = [AddedToken(text, **flags) for text in ("<|x|>", "<|x|><|y|>", "word", "<|", " ", "É")]
    backend = RustTokenizer.from_file(str(models_dir / "qwen3" / "tokenizer.json"))
    backend.add_tokens(added)
    files = FolderFiles(models_dir / "qwen3")
    plain = load_tokenizer(files)
    ours = FastTokenizer(
        plain.table,
        plain.special,
        lambda: files.read("tokenizer.json"),
        extra_tokens=[{"content": str(token.content), "special": False, **flags} for token in added],
        cache_bytes=LARGE,
    )
    chance = random.Random(2)
    parts = ["<|x|>", "<|y|>", "<|im_end|>", "word", "words", " ", "  ", "\n", "É", "E\u0301", "<|", "|>", "a", "1"]
    for _ in range(2_000):
        text = "".join(chance.choices(parts, k=chance.randrange(9)))
        assert ours.encode(text) == backend.encode(text).ids, text


def test_threads_may_share_a_cache(cached: Callable[[str, int], FastTokenizer]) -> None:
    tokenizer = cached("qwen3", SMALL)
    conversations = ["".join(f"<|im_start|>user\nturn {n}<|im_end|>\n" for n in range(k, k + 60)) for k in range(40)]
    expected = [tokenizer.encode(text) for text in conversations]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenizer.encode, conversations * 5)) == expected * 5


@given(st.lists(st.text("ab<|.", min_size=1, max_size=5), min_size=1, max_size=12), st.text("ab<|.x", max_size=40))
@settings(max_examples=300, deadline=None)
def test_the_pattern_finds_the_longest_token_at_each_place(tokens: list[str], text: str) -> None:
    found, place = [], 0
    while place < len(text):
        longest = max((token for token in tokens if text.startswith(token, place)), key=len, default="")
        if longest:
            found.append((place, longest))
        place += len(longest) or 1
    assert [(match.start(), match[0]) for match in re.finditer(longest_of(tokens), text)] == found
