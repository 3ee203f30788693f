"""The fast encoder gives the ids of ``tokenizers``, or leaves a text to it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from core.bundle.folder import FolderFiles
from core.tokenizer import FastTokenizer, load_tokenizer
from core.tokenizer.fast.comparison import compare, prove, texts
from core.tokenizer.fast.corpus import KINDS
from core.tokenizer.fast.encoder import GUARDED, FastEncoder, make_encoder
from core.tokenizer.fast.load import encoder_of
from core.tokenizer.fast.scripts import SENTENCES
from tests.golden import corpus
from tests.golden.application import running
from tests.golden.replay import run_case
from tests.golden.verdict import judge
from tests.tokenizer.fast.conftest import Both

# Every worker would load all families.
pytestmark = pytest.mark.xdist_group("fast encoder")

FAMILIES = ("qwen3", "qwen3.5", "llama3", "deepseek", "families", "gpt-oss")
RENDERS = ("/v1/chat/completions/render", "/v1/completions/render", "/tokenize")


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_equal_over_texts_of_every_kind(both: Both, family: str) -> None:
    tokenizer, encoder = both(family)
    found = compare(tokenizer, encoder.ids, 4_000, seed=7)
    assert not found.different, found.shown
    assert set(found.encodes) >= {*KINDS, "long texts"}
    assert found.guarded < 0.05 * sum(found.encodes.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_equal_through_the_cache_and_around(both: Both, models_dir: Path, family: str) -> None:
    """The way that a render takes: stretches between special tokens, special tokens around, cut to a length."""
    plain, encoder = both(family)
    ours = load_tokenizer(FolderFiles(models_dir / family), cache_bytes=200_000)
    assert isinstance(ours, FastTokenizer)
    asked = 0

    def ids(text: str) -> list[int] | None:
        nonlocal asked
        asked += 1
        return encoder.ids(text)

    ours.encode_by(ids)
    conversation = ""
    for number, (kind, text) in enumerate(texts(plain, 1_000, seed=11)):
        conversation = text if kind != "conversations" else conversation[-20_000:] + text
        special = number % 3 == 0
        expected = plain.encode(conversation, special)
        assert ours.encode(conversation, special) == expected, conversation[:200]
        limit = number % 90
        cut = ours.encode(conversation, special, truncation=True, max_length=limit)
        assert cut == plain.encode(conversation, special, truncation=True, max_length=limit)
    assert asked > 900


@pytest.mark.parametrize("flags", [{}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"normalized": True}])
@pytest.mark.parametrize("splits", [False, True])
def test_added_tokens_of_every_kind(models_dir: Path, flags: dict[str, bool], splits: bool) -> None:
    files = FolderFiles(models_dir / "families")
    plain = load_tokenizer(files)
    assert isinstance(plain, FastTokenizer)
    added = [AddedToken(text, **flags) for text in ("<|x|>", "<|x|><|y|>", "word", "<|", "É")]
    tokenizer = FastTokenizer(
        plain.table,
        plain.special,
        plain.read_source,
        extra_tokens=[
            {"content": token.content, "special": number % 2 == 0, **flags} for number, token in enumerate(added)
        ],
        init_kwargs={"split_special_tokens": splits},
    )
    encoder = encoder_of(tokenizer, tokenizer.read_source())
    assert encoder is not None
    chance = random.Random(2)
    parts = ["<|x|>", "<|y|>", "<|im_end|>", "word", "words", " ", "  ", "\n", "É", "E\u0301", "<|", "|>", "a", "1"]
    for _ in range(1_000):
        text = "".join(chance.choices(parts, k=chance.randrange(9)))
        assert encoder.ids(text) == tokenizer.reference_ids(text), text


def test_a_known_difference_is_kept_from_it(both: Both) -> None:
    """gpt-oss's pattern ignores case in the contraction: " I'ſ" is where the two differ."""
    tokenizer, encoder = both("gpt-oss")
    text = f" I'{GUARDED}"
    assert encoder.ids(text) is None
    assert tokenizer.reference_ids(text) == [3413, 70067]
    assert encoder._encode(text, False, False).ids == [357, 6, 70067], "they agree: the guard may go"
    ours = _with(tokenizer, encoder)
    assert ours.encode(text) == [3413, 70067]


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_what_it_cannot_read_is_left_to_the_other(both: Both, text: str) -> None:
    """A half of a surrogate pair: an answer as without it, whatever that is."""
    tokenizer, encoder = both("qwen3")
    assert encoder.ids(text) is None
    assert _outcome(_with(tokenizer, encoder), text) == _outcome(tokenizer, text)


def test_what_fails_inside_it_is_left_to_the_other(both: Both) -> None:
    tokenizer, _ = both("qwen3")

    class PanicException(BaseException):
        """As pyo3 names the panic of Rust code."""

    for error in (ValueError("match limit"), RuntimeError(), PanicException("index out of bounds")):

        class Native:
            def encode(self, *_: Any, error: BaseException = error) -> Any:
                raise error

        broken = FastEncoder(Native(), False)
        assert broken.ids("a") is None
        assert _with(tokenizer, broken).encode("some text") == tokenizer.encode("some text")


def test_an_end_of_the_process_goes_through_it() -> None:
    class Native:
        def encode(self, *_: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FastEncoder(Native(), False).ids("a")


def test_there_is_none_for_a_sentencepiece_tokenizer(models_dir: Path) -> None:
    tokenizer = load_tokenizer(FolderFiles(models_dir / "mistral-spm"))
    assert isinstance(tokenizer, FastTokenizer)
    assert encoder_of(tokenizer, tokenizer.read_source()) is None
    assert prove(tokenizer) is None
    assert prove(load_tokenizer(FolderFiles(models_dir / "mistral-tekken"))) is None
    assert make_encoder("{}", []) is None


def test_the_sentences_are_of_twenty_scripts() -> None:
    import unicodedata

    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in "".join(SENTENCES) if letter.isalpha()}
    assert len(scripts) > 25


@pytest.mark.golden
def test_recorded_renders_are_the_same(both: Both, models_dir: Path) -> None:
    """Every recorded render and tokenize, as vLLM answered it."""
    cases = [case for case in corpus.by_server(corpus.load()) if case["endpoint"] in RENDERS]
    assert len(cases) > 200
    asked = 0
    for key in dict.fromkeys(corpus.server_key(case["server"]) for case in cases):
        group = [case for case in cases if corpus.server_key(case["server"]) == key]
        family = group[0]["server"]["model"]
        with running(group[0]["server"], models_dir, "checkpoint") as application:
            if family in FAMILIES:
                tokenizer = application._app.state.loader.get().tokenizer  # type: ignore[attr-defined]
                encoder = both(family)[1]

                def ids(text: str, encoder: FastEncoder = encoder) -> list[int] | None:
                    nonlocal asked
                    asked += 1
                    return encoder.ids(text)

                tokenizer.encode_by(ids)
            for case in group:
                verdict = judge(case, run_case(case, application.call), "checkpoint")
                assert verdict.accepted, f"{case['id']}: {verdict.report(10)}"
    assert asked > 150


def _with(tokenizer: FastTokenizer, encoder: FastEncoder) -> FastTokenizer:
    """A tokenizer that has the encoder."""
    made = FastTokenizer(
        tokenizer.table,
        tokenizer.special,
        tokenizer.read_source,
        extra_tokens=tokenizer._extra_tokens,
        init_kwargs=tokenizer.init_kwargs,
    )
    made.__dict__["backend_tokenizer"] = tokenizer.backend_tokenizer  # built once
    made.encode_by(encoder.ids)
    return made


def _outcome(tokenizer: FastTokenizer, text: str) -> Any:
    try:
        return tokenizer.encode(text)
    except Exception as exc:
        return repr(exc)
