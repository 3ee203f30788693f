"""The tekken tokenizer against recorded answers of vLLM's own.

`tokenizer.jsonl.gz` holds what `MistralTokenizer` of vLLM 0.33.0 and its `detokenize_incrementally` gave
(mistral-common 1.13.1, transformers 5.19.0), a call a line.  `bytes` stands for a `bytes` object: vLLM has one where
a token is only part of a character, we have a piece.  Left out are ids outside the vocabulary, over which vLLM
fails, and parts of characters between special tokens that are kept, which vLLM turns into U+FFFD.
"""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.text.detokenizer import DecodeOptions, detokenize, detokenize_all, seed_window
from core.tokenizer.mistral import TekkenTokenizer
from core.tokenizer.tekken import piece_of

RECORDED = [
    json.loads(line)
    for line in gzip.decompress((Path(__file__).parent / "tokenizer.jsonl.gz").read_bytes()).splitlines()
]
VERSIONS = sorted({entry["version"] for entry in RECORDED})
ATTRIBUTES = (
    *("version", "is_tekken", "is_fast", "vocab_size", "max_token_id", "max_chars_per_token", "truncation_side"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "all_special_ids", "all_special_tokens", "supports_grammar"),
)
Of = Callable[[str], TekkenTokenizer]


def recorded(call: str, version: str) -> list[tuple[list[Any], Any]]:
    found = [
        (entry["args"], entry["answer"]) for entry in RECORDED if (entry["call"], entry["version"]) == (call, version)
    ]
    assert found, call
    return found


def piece(token: Any) -> str:
    return piece_of(bytes.fromhex(token["bytes"])) if isinstance(token, dict) else token


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(tekken_of: Of, version: str, name: str) -> None:
    for _, answer in recorded(name, version):
        assert getattr(tekken_of(version), name) == answer


@pytest.mark.parametrize("version", VERSIONS)
def test_vocabulary(tekken_of: Of, version: str) -> None:
    tokenizer = tekken_of(version)
    assert [([], len(tokenizer))] == recorded("len", version)
    assert [([], tokenizer.get_added_vocab())] == recorded("get_added_vocab", version)
    assert [([], digest(tokenizer.vocab))] == recorded("vocab_sha256", version)
    assert [([], digest(list(tokenizer.get_vocab().items())))] == recorded("get_vocab_sha256", version)


@pytest.mark.parametrize("version", VERSIONS)
def test_ids_to_tokens_and_back(tekken_of: Of, version: str) -> None:
    tokenizer = tekken_of(version)
    for (ids, skip), answer in recorded("convert_ids_to_tokens", version):
        assert tokenizer.convert_ids_to_tokens(ids, skip_special_tokens=skip) == [piece(token) for token in answer]
    for (ids, skip), answer in recorded("text_of_tokens", version):
        assert (
            tokenizer.convert_tokens_to_string(tokenizer.convert_ids_to_tokens(ids, skip_special_tokens=skip)) == answer
        )
    for (token,), answer in recorded("convert_tokens_to_ids", version):
        assert tokenizer.convert_tokens_to_ids(token) == answer


@pytest.mark.parametrize("version", VERSIONS)
def test_decode(tekken_of: Of, version: str) -> None:
    for (ids, skip), answer in recorded("decode", version):
        assert tekken_of(version).decode(ids, skip_special_tokens=skip) == answer


@pytest.mark.parametrize("version", VERSIONS)
def test_incremental_detokenization(tekken_of: Of, version: str) -> None:
    tokenizer = tekken_of(version)
    for (ids, prompt, skip), answer in recorded("detokenize", version):
        options = DecodeOptions(skip, True)
        seeded = window = seed_window(tokenizer, prompt, skip)
        texts = []
        for token_id in ids:
            text, window = detokenize(tokenizer, [token_id], window, options)
            texts.append(text)
        assert texts == answer
        assert detokenize_all(tokenizer, ids, seeded, options) == "".join(answer)


@pytest.mark.parametrize("version", VERSIONS)
def test_encode(tekken_of: Of, version: str) -> None:
    tokenizer = tekken_of(version)
    for (text, special), answer in recorded("encode", version):
        assert tokenizer.encode(text, add_special_tokens=special) == answer
    for (text, truncation, max_length), answer in recorded("encode_truncated", version):
        assert tokenizer.encode(text, truncation=truncation, max_length=max_length) == answer
    for (text, special, truncation, max_length), answer in recorded("call_truncated", version):
        assert tokenizer.encode_prompt(text, special, truncation, max_length, True) == (answer, None)
