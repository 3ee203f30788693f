"""The tokenizer adapter against the ``tokenizers`` package, and the decode table's file forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer

from core.bundle.folder import FolderFiles
from core.errors import ConfigurationError
from core.tokenizer import Tokenizer, load_tokenizer
from core.tokenizer.decode_table import pack_table, read_table, unpack_table
from core.tokenizer.special_tokens import resolve_special_tokens
from tests.support.models import FAMILIES

TEXT = 'Hello <|im_start|>user\n  naïve “q” 漢字 🎉 <s>[INST] </think> {"a": 1}\t\n'


@pytest.mark.parametrize("family", FAMILIES)
def test_encodes_and_decodes_as_the_package(
    tokenizer_of: Callable[[str], Tokenizer], models_dir: Path, family: str
) -> None:
    ours = tokenizer_of(family)
    real = RustTokenizer.from_file(str(models_dir / family / "tokenizer.json"))
    for special in (True, False):
        ids = real.encode(TEXT, add_special_tokens=special).ids
        assert ours.encode(TEXT, add_special_tokens=special) == ids
        assert ours.decode(ids) == real.decode(ids, skip_special_tokens=False)
    assert ours.get_vocab() == real.get_vocab()
    assert len(ours) == real.get_vocab_size()
    assert ours.vocab_size == real.get_vocab_size(with_added_tokens=False)
    assert ours.convert_ids_to_tokens(range(len(ours) + 3)) == [real.id_to_token(i) for i in range(len(ours) + 3)]


@pytest.mark.parametrize("family", FAMILIES)
def test_packing_loses_nothing(tokenizer_of: Callable[[str], Tokenizer], family: str) -> None:
    table = tokenizer_of(family).table
    again = unpack_table(pack_table(table))
    assert again.tokens == table.tokens
    assert (again.size, again.base_size, dict(again.added), again.flagged, again.space_marker) == (
        table.size,
        table.base_size,
        dict(table.added),
        table.flagged,
        table.space_marker,
    )
    tokens = [t for t in table.tokens[:400] if t]
    assert again.join(tokens) == table.join(tokens)


def tokenizer_json(vocab: dict[str, int], **changes: Any) -> dict[str, Any]:
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]]},
        **changes,
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_a_token_called_merges_does_not_mislead_the_reader(indent: int | None) -> None:
    spec = tokenizer_json({"a": 0, "b": 1, "ab": 2, "merges": 3, '"merges": [': 4, "\\": 5})
    table = read_table(json.dumps(spec, indent=indent).encode())
    assert table.tokens == ["a", "b", "ab", "merges", '"merges": [', "\\"]


def test_merges_need_not_come_last() -> None:
    spec = tokenizer_json({"a": 0, "b": 1, "ab": 2})
    spec["model"] = {"merges": [["a", "b"]], "type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}}
    assert read_table(json.dumps(spec).encode()).tokens == ["a", "b", "ab"]
    spec["zzz"] = [1, 2]  # something after the model
    assert read_table(json.dumps(spec).encode()).tokens == ["a", "b", "ab"]


def test_unigram_vocabularies_are_lists() -> None:
    spec = tokenizer_json({}, model={"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁a", -1.0]]})
    assert read_table(json.dumps(spec).encode()).tokens == ["<unk>", "▁a"]


@given(vocab=st.lists(st.text(min_size=1, max_size=6), unique=True, min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_vocabulary_survives_packing(vocab: list[str]) -> None:
    spec = tokenizer_json({token: i for i, token in enumerate(vocab)})
    table = read_table(json.dumps(spec).encode())
    assert unpack_table(pack_table(table)).tokens == vocab


def test_tokens_of_the_configuration_get_the_next_ids() -> None:
    spec = tokenizer_json({"a": 0, "b": 1, "ab": 2})
    raw = json.dumps(spec)
    extra = [
        {"content": "<x>", "special": True},
        {"content": "a", "special": True},
        {"content": "<y>", "special": False},
    ]
    table = read_table(raw.encode(), extra)
    assert table.tokens == ["a", "b", "ab", "<x>", "<y>"]
    real = RustTokenizer.from_str(raw)
    real.add_special_tokens(["<x>"])
    real.add_tokens(["<y>"])
    assert [real.id_to_token(i) for i in range(5)] == table.tokens
    assert table.size == 5
    assert table.flagged == {3, 0}


@pytest.mark.parametrize(
    "damage",
    [b"", b"{}", b"[]", b"not json", b'{"model": {"vocab": 7}}', b'{"model": {"vocab": {"a": "x"}}}'],
)
def test_what_is_not_a_tokenizer_is_said_so(damage: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"tokenizer\.json is not a tokenizer"):
        read_table(damage)


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"junk\nmore", b'{"version": 9}\n', b'{"version": 1}\nab'])
def test_a_damaged_packed_table_is_said_so(damage: bytes) -> None:
    with pytest.raises(ConfigurationError, match="derender-vocab"):
        unpack_table(damage)


def test_ids_that_fit_no_tokenizer(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    tokenizer = tokenizer_of("qwen3")
    for token_id, words in ((-1, "too small"), (2**32, "too large")):
        with pytest.raises(OverflowError, match=words):
            tokenizer.decode([token_id])
        with pytest.raises(OverflowError, match=words):
            tokenizer.convert_ids_to_tokens([token_id])
    assert tokenizer.decode([10**6]) == ""


@pytest.mark.parametrize("name", ["qwen3", "llama3", "deepseek", "gpt-oss", "mistral-spm"])
@pytest.mark.parametrize("limit", [None, 1, 3, 1000])
def test_ids_are_the_same_with_offsets_and_without(
    tokenizer_of: Callable[[str], Tokenizer], name: str, limit: int | None
) -> None:
    tokenizer = tokenizer_of(name)
    for text in (
        "",
        " ",
        "a",
        "I'ſ",
        "Hello <|im_end|> wörld\r\n\t",
        "漢字 👩‍🚀 e\u0301",
        "x" * 3000,
        "def f(x):\n    return  x",
    ):
        for special in (True, False):
            plain, nothing = tokenizer.encode_prompt(text, special, limit is not None, limit)
            ids, offsets = tokenizer.encode_prompt(text, special, limit is not None, limit, offsets=True)
            assert (plain, nothing) == (ids, None)
            assert offsets is not None
            assert len(offsets) == len(ids)


def test_truncation_keeps_special_tokens_and_the_end(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    tokenizer = tokenizer_of("mistral-spm")
    whole = tokenizer.encode("one two three four five")
    cut = tokenizer.encode("one two three four five", truncation=True, max_length=4)
    assert cut == [whole[0], *whole[-3:]]
    assert tokenizer.encode("one", truncation=True, max_length=400) == tokenizer.encode("one")


def test_special_tokens_follow_the_configuration() -> None:
    special = resolve_special_tokens(
        {
            "tokenizer_class": "Qwen2TokenizerFast",
            "eos_token": {"content": "<e>"},
            "pad_token": None,
            "image_token": "<img>",
            "additional_special_tokens": ["<x>", {"content": "<e>"}],
        }
    )
    # unk is the class's own default; pad was set to null and stays unset.
    assert dict(special.named) == {"eos_token": "<e>", "unk_token": "<|endoftext|>", "image_token": "<img>"}
    assert special.every == ("<e>", "<|endoftext|>", "<img>", "<x>")


def test_the_older_special_tokens_map_is_read() -> None:
    special = resolve_special_tokens({"bos_token": "<a>"}, {"bos_token": {"content": "<b>"}, "eos_token": "<c>"})
    assert dict(special.named) == {"bos_token": "<b>", "eos_token": "<c>"}
    newer = resolve_special_tokens({"bos_token": "<a>", "added_tokens_decoder": {}}, {"bos_token": "<b>"})
    assert dict(newer.named) == {"bos_token": "<a>"}


def test_merges_are_read_only_when_something_encodes(models_dir: Path) -> None:
    class Counting(FolderFiles):
        reads: list[str] = []  # noqa: RUF012

        def read(self, name: str) -> bytes:
            self.reads.append(name)
            return super().read(name)

    files = Counting(models_dir / "qwen3")
    tokenizer = load_tokenizer(files)
    Counting.reads.clear()
    tokenizer.decode([1, 2, 3])
    tokenizer.get_vocab()
    assert tokenizer.convert_tokens_to_ids("<think>") == 151667
    assert Counting.reads == []
    tokenizer.encode("x")
    tokenizer.encode("y")
    assert Counting.reads == ["tokenizer.json"]
