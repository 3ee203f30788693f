"""The detokenizer against vLLM's own ``detokenize_incrementally``, on every tokenizer family."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.tokenizers.detokenizer_utils import convert_prompt_ids_to_tokens, detokenize_incrementally

from core.text.detokenizer import (
    EMPTY_WINDOW,
    MOST_HELD,
    REPLACEMENT,
    DecodeOptions,
    Window,
    detokenize,
    detokenize_all,
    seed_window,
)
from core.text.unfinished import ByteForm
from core.tokenizer import Tokenizer
from tests.support.models import FAMILIES

TEXTS = [
    "Hello, world! ",
    "naïve — “quotes” … ½ ",
    "漢字かな交じり文 ",
    "👩‍👩‍👧 🎉",
    "  indented\n\n\tcode()\n",
    "مرحبا שלום ",
]


def vllm_text(tokenizer: Tokenizer, prompt: list[int], ids: list[int], skip: bool) -> str:
    """The text as vLLM's own function builds it, one token at a time."""
    tokens, prefix, read = (
        convert_prompt_ids_to_tokens(tokenizer, prompt, skip_special_tokens=skip) if prompt else ([], 0, 0)
    )
    parts = []
    for token_id in ids:
        new, text, prefix, read = detokenize_incrementally(
            tokenizer, [token_id], tokens, prefix, read, skip_special_tokens=skip
        )
        tokens = tokens + new
        parts.append(text)
    return "".join(parts)


def random_ids(tokenizer: Tokenizer, seed: int, length: int) -> list[int]:
    """Ids of real text with noise: any id, special ones, ones outside the vocabulary."""
    rng = random.Random(seed)
    ids: list[int] = []
    special = sorted(tokenizer.get_added_vocab().values())
    while len(ids) < length:
        kind = rng.random()
        if kind < 0.6:
            ids += tokenizer.encode(rng.choice(TEXTS), add_special_tokens=False)
        elif kind < 0.8:
            ids.append(rng.randrange(len(tokenizer)))
        elif kind < 0.9 and special:
            ids.append(rng.choice(special))
        else:
            ids.append(rng.choice([len(tokenizer), len(tokenizer) + 7, 2**31]))
    return ids[:length]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_equals_vllm_whole_and_in_any_chunks(
    tokenizer_of: Callable[[str], Tokenizer], family: str, skip: bool, seed: int
) -> None:
    tokenizer = tokenizer_of(family)
    options = DecodeOptions(skip_special=skip)
    prompt = random_ids(tokenizer, seed + 100, 12) if seed % 3 else []
    ids = random_ids(tokenizer, seed, 160)
    expected = vllm_text(tokenizer, prompt, ids, skip)
    window = seed_window(tokenizer, prompt, skip)
    assert detokenize_all(tokenizer, ids, window, options) == expected
    rng = random.Random(seed)
    cuts = sorted({0, len(ids), *(rng.randrange(len(ids)) for _ in range(40))})
    text = ""
    for start, end in pairwise(cuts):
        new, window = detokenize(tokenizer, ids[start:end], window, options)
        text += new
        assert window.prefix_offset == 0
    assert text == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_one_pass_equals_the_rule_on_clean_text(tokenizer_of: Callable[[str], Tokenizer], family: str) -> None:
    tokenizer = tokenizer_of(family)
    for text in TEXTS:
        ids = tokenizer.encode(text * 5, add_special_tokens=False)
        for prompt in ([], tokenizer.encode("A prompt.", add_special_tokens=False)):
            window = seed_window(tokenizer, prompt, True)
            assert detokenize_all(tokenizer, ids, window, DecodeOptions()) == vllm_text(tokenizer, prompt, ids, True)


def test_window_stays_small_however_long_the_stream(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    tokenizer = tokenizer_of("qwen3")
    window = EMPTY_WINDOW
    for token_id in tokenizer.encode("some words 漢字 and more 🎉 " * 400, add_special_tokens=False):
        _, window = detokenize(tokenizer, [token_id], window, DecodeOptions())
        assert len(window.tokens) <= 8


def test_an_unfinished_character_is_held_back_and_then_complete(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    tokenizer = tokenizer_of("qwen3")
    ids = tokenizer.encode("🫠", add_special_tokens=False)
    assert len(ids) > 1
    window: Window = EMPTY_WINDOW
    texts = []
    for token_id in ids:
        text, window = detokenize(tokenizer, [token_id], window, DecodeOptions())
        texts.append(text)
    assert texts == [""] * (len(ids) - 1) + ["🫠"]
    assert detokenize_all(tokenizer, ids[:-1], EMPTY_WINDOW, DecodeOptions()) == ""


@given(ids=st.lists(st.integers(0, 2**33), max_size=30), prompt=st.lists(st.integers(0, 2**31), max_size=12))
@settings(max_examples=200, deadline=None)
def test_no_id_crashes(tokenizer_of: Callable[[str], Tokenizer], ids: list[int], prompt: list[int]) -> None:
    tokenizer = tokenizer_of("mistral-spm")
    window = seed_window(tokenizer, prompt, True)
    assert (
        detokenize_all(tokenizer, ids, window, DecodeOptions())
        == detokenize(tokenizer, ids, window, DecodeOptions())[0]
    )


def hostile_ids(tokenizer: Tokenizer, rng: random.Random, length: int) -> list[int]:
    """Long runs of what shows no text: parts of characters, ids outside the vocabulary, empty and special tokens."""
    parts = unfinished_ids(tokenizer)
    others = [len(tokenizer), 2**31, *tokenizer.encode("a é 漢 🫠 \ufffd", add_special_tokens=False)]
    others += list(tokenizer.get_added_vocab().values())[:3]
    ids: list[int] = []
    while len(ids) < length:
        pool = parts if rng.random() < 0.7 else others
        few = [rng.choice(pool) for _ in range(rng.randrange(1, 4))]
        ids += few * rng.randrange(1, 14)
    return ids[:length]


def unfinished_ids(tokenizer: Tokenizer) -> list[int]:
    """Ids of tokens that are a part of a character, or spell a byte, or U+FFFD."""
    found = []
    for i in range(min(len(tokenizer), 40_000)):
        token = tokenizer.id_to_token(i) or ""
        if REPLACEMENT in tokenizer.decode([i]) or (token.startswith("<0x") and len(token) == 6):
            found.append(i)
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(8))
def test_text_that_waits_long_equals_vllm(tokenizer_of: Callable[[str], Tokenizer], family: str, seed: int) -> None:
    tokenizer = tokenizer_of(family)
    rng = random.Random(seed)
    for skip in (True, False):
        prompt = hostile_ids(tokenizer, rng, 9) if seed % 2 else []
        ids = hostile_ids(tokenizer, rng, 240)
        window = seed_window(tokenizer, prompt, skip)
        assert detokenize_all(tokenizer, ids, window, DecodeOptions(skip_special=skip)) == vllm_text(
            tokenizer, prompt, ids, skip
        )


class Counting:
    """A tokenizer that counts the tokens that it joins."""

    def __init__(self, inner: Tokenizer) -> None:
        self._inner = inner
        self.joined = 0

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        self.joined += len(tokens)
        return self._inner.convert_tokens_to_string(tokens)

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize("family", FAMILIES)
def test_work_grows_with_the_ids_and_no_faster(tokenizer_of: Callable[[str], Tokenizer], family: str) -> None:
    tokenizer = tokenizer_of(family)
    unfinished = unfinished_ids(tokenizer)
    known = {tokenizer.id_to_token(i): i for i in unfinished}
    patterns: list[Sequence[int]] = [[i] for i in unfinished[:6]] + [[len(tokenizer)], unfinished[:2], unfinished[-3:]]
    # A broken run whose every further character is whole by itself.
    patterns += [[known[token] for token in ("<0xE6>", "<0x41>", "<0x41>") if token in known] or [len(tokenizer)]]
    if "<0xEF>" in known:
        patterns.append([known["<0xEF>"], known["<0xBF>"], known["<0xBD>"]])
    for pattern in patterns:
        work = []
        for size in (500, 1000, 2000):
            counting = Counting(tokenizer)
            detokenize_all(counting, (list(pattern) * size)[:size], EMPTY_WINDOW, DecodeOptions())  # type: ignore[arg-type]
            work.append(counting.joined)
        assert work[2] <= 3 * work[1] <= 9 * work[0], pattern
        assert work[2] < 20 * size, pattern


def test_work_does_not_grow_with_a_window_of_the_client(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    counting = Counting(tokenizer_of("qwen3"))
    window = Window(("a" * 4096,) * 1000, 0, 999)
    detokenize_all(counting, [94] * 1000, window, DecodeOptions())  # type: ignore[arg-type]
    assert counting.joined < 30_000


@pytest.mark.parametrize("family", FAMILIES)
def test_a_window_never_outgrows_a_state(tokenizer_of: Callable[[str], Tokenizer], family: str) -> None:
    tokenizer = tokenizer_of(family)
    unfinished = unfinished_ids(tokenizer)[0]
    text, window = detokenize(tokenizer, [unfinished] * 3000, EMPTY_WINDOW, DecodeOptions())
    assert len(window.tokens) <= MOST_HELD + 8
    # What was held came out, and the stream goes on.
    assert text == tokenizer.decode([unfinished] * 3000)
    more, window = detokenize(tokenizer, tokenizer.encode("hello there", False), window, DecodeOptions())
    assert more.endswith("hello there")


def test_slow_tokenizers_put_spaces_between_added_tokens() -> None:
    class Slow:
        """Two letters and two added tokens, the way vLLM treats a tokenizer that is not fast."""

        is_fast = False
        special_ids = frozenset({2})
        all_special_tokens = ["<s>"]  # noqa: RUF012
        space_marker = None
        joins_exactly = False
        byte_form = ByteForm.UNKNOWN

        def __len__(self) -> int:
            return 4

        def id_to_token(self, token_id: int) -> str | None:
            return ["a", "b", "<s>", "<x>"][token_id] if 0 <= token_id < 4 else None

        def convert_ids_to_tokens(self, ids: list[int], skip_special_tokens: bool = False) -> list[str]:
            return [str(self.id_to_token(i)) for i in ids if not (skip_special_tokens and i in self.special_ids)]

        def get_added_vocab(self) -> dict[str, int]:
            return {"<s>": 2, "<x>": 3}

        def convert_tokens_to_string(self, tokens: list[str]) -> str:
            return "".join(tokens)

        def decode(self, ids: object, skip_special_tokens: bool = False) -> str:
            raise AssertionError("not used")

    slow = Slow()
    ids = [0, 3, 1, 2, 0, 0]
    for skip in (True, False):
        for spaces in (True, False):
            tokens: list[str] = []
            prefix = read = 0
            expected = ""
            for token_id in ids:
                new, text, prefix, read = detokenize_incrementally(
                    slow,
                    [token_id],
                    tokens,
                    prefix,
                    read,
                    skip_special_tokens=skip,
                    spaces_between_special_tokens=spaces,
                )
                tokens = tokens + new
                expected += text
            assert detokenize(slow, ids, EMPTY_WINDOW, DecodeOptions(skip, spaces))[0] == expected
