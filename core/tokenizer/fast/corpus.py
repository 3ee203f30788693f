"""Texts that tokenizers can differ over: code, prose of many scripts, conversations, every assigned character, noise.

Deterministic: the same texts for the same Python, tokenizer and seed. ``corpus``
yields (kind, text); nothing in it is fetched.
"""

from __future__ import annotations

import random
import sys
import sysconfig
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, product
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, Literal

from core.tokenizer.fast.scripts import SENTENCES

_SPACES = [chr(i) for i in range(0x3001) if chr(i).isspace()] + ["\u200b", "\u200d", "\ufeff", "\u00ad", "\u2060"]
_CONTRACTIONS = ["'s", "'S", "'ſ", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'VE", "'m", "'M", "'ll", "'lL", "'d", "'D"]
_CONTRACTIONS += ["’s", "'", "''", "'x", "'ſs", "'Kelvin"]
_WORDS = [
    "it",
    "IT",
    "I",
    "we",
    "ПРИВЕТ",
    "straße",
    "İstanbul",
    "ﬁn",
    "日本",
    "한국어",
    "नमस्ते",
    "שלום",
    "مرحبا",
    "ไทย",
    "é",
    "e\u0301",
]
_MARKS = ["\u0301", "\u0308", "\u0327", "\u093f", "\u0e34", "\u20dd", "\ufe0f", "\U0001f3fd", "\u200d", "\u1160"]
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~–—…“”‘’«»¿¡、。·"


KINDS = (
    "code",
    "prose",
    "scripts",
    "conversations",
    "every character",
    "characters in context",
    "combining and normal forms",
    "white space",
    "numbers and contractions",
    "special tokens",
    "tokens in a row",
    "random characters",
    "random bytes",
    "long runs",
)


@cache
def prose() -> str:
    """English prose that every Python brings, about 700,000 characters: the topics of ``help()``."""
    return "\n\n".join(topics[name].strip() for name in sorted(topics))


def corpus(specials: Sequence[str], pieces: Sequence[str], each: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """``each`` texts of every one of ``KINDS``, and a hundredth of that of long ones.

    ``specials`` are a tokenizer's added tokens, ``pieces`` texts of its tokens.
    """
    chance = random.Random(815 + seed)
    kinds: dict[str, Iterator[str]] = {
        "code": _code(),
        "prose": _prose(chance),
        "scripts": _scripts(chance),
        "conversations": _conversations(specials, chance),
        "every character": _characters(),
        "characters in context": _in_context(chance),
        "combining and normal forms": _combining(chance),
        "white space": _white_space(chance),
        "numbers and contractions": _numbers(chance),
        "special tokens": _specials(specials, chance),
        "tokens in a row": _rows(pieces, chance),
        "random characters": _noise(chance),
        "random bytes": _bytes(chance),
        "long runs": _runs(specials, chance),
    }
    for kind in KINDS:
        strings = kinds[kind]
        for text in islice(strings, each):
            yield kind, text
    for text in _long(chance, max(1, each // 100)):
        yield "long texts", text


def _code() -> Iterator[str]:
    """Lines of the standard library, and pieces of 40 lines."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        yield from ("".join(lines[at : at + 40]) for at in range(0, len(lines), 400))
        yield from lines


def _prose(chance: random.Random) -> Iterator[str]:
    text = prose()
    while True:
        start = chance.randrange(len(text))
        yield text[start : start + chance.choice((1, 5, 20, 80, 300))]


def _scripts(chance: random.Random) -> Iterator[str]:
    """Sentences of every script whole, then words of one of them or of two in another order, with marks between."""
    yield from SENTENCES
    words = [sentence.split() if " " in sentence else list(sentence) for sentence in SENTENCES]
    while True:
        known = chance.choice(words)
        if chance.randrange(3) == 0:
            known = known + chance.choice(words)
        joined = chance.choice((" ", " ", "", "\n", ", ", "-", "  "))
        yield joined.join(chance.choices(known, k=chance.randrange(1, 40))) + chance.choice(("", ".", "?!", "\n", "。"))


def _conversations(specials: Sequence[str], chance: random.Random) -> Iterator[str]:
    """Turns between a tokenizer's own tokens, as chat templates write them."""
    known = list(specials) or ["<s>"]
    text, code = prose(), _code()
    while True:
        begin, end = chance.choice(known), chance.choice(known)
        turns = []
        for role in ("system", "user", "assistant", "tool", "user")[: chance.randrange(1, 6)]:
            start = chance.randrange(len(text))
            said = chance.choice((text[start : start + chance.randrange(400)], chance.choice(SENTENCES)))
            written = f"```python\n{next(code, said)}```", f'{{"q": "{said[:40]}", "n": {start}}}'
            said = chance.choice((said, said, *written))
            turns.append(f"{begin}{role}\n{said}{end}\n")
        yield "".join(turns)


def _characters() -> Iterator[str]:
    """Every character that Unicode assigns, alone in a string or after a space, eight at a time after that."""
    assigned = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) not in ("Cn", "Cs")]
    yield from (character for character in assigned if ord(character) < 0x3000)
    yield from (f" {character}a1" for character in assigned if ord(character) < 0x1000)
    step = 40
    for start in range(step):  # far neighbours together, so that the first strings already see all of Unicode
        for at in range(start, len(assigned), step * 400):
            yield "".join(assigned[at : at + step * 400 : step * 25])
    while True:
        yield from (a + b for a, b in zip(assigned, assigned[7:], strict=False))


def _in_context(chance: random.Random) -> Iterator[str]:
    """A character of any block beside others of it, with spaces, digits and punctuation between."""
    while True:
        start = chance.choice((0x20, 0xA0, 0x250, 0x370, 0x400, 0x590, 0x900, 0xE00, 0x1100, 0x1E00, 0x2000, 0x2E80))
        start = chance.choice((start, 0x3040, 0x4E00, 0xAC00, 0xF900, 0xFB00, 0xFE00, 0x1D400, 0x1F300, 0x20000))
        letters = [chr(start + chance.randrange(512)) for _ in range(chance.randrange(1, 9))]
        mixed = [part for letter in letters for part in (letter, chance.choice(("", "", " ", "1", ".", "\n", "a")))]
        yield "".join(mixed)


def _combining(chance: random.Random) -> Iterator[str]:
    forms: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
    while True:
        words = [chance.choice(_WORDS) + "".join(chance.choices(_MARKS, k=chance.randrange(3))) for _ in range(4)]
        yield unicodedata.normalize(chance.choice(forms), chance.choice(("", " ")).join(words))


def _white_space(chance: random.Random) -> Iterator[str]:
    yield from ("".join(pair) for pair in product(_SPACES, repeat=2))
    while True:
        parts = []
        for _ in range(chance.randrange(1, 6)):
            parts.append("".join(chance.choices(_SPACES, k=chance.randrange(5))))
            parts.append(" " * chance.choice((0, 0, 1, 2, 3, 17)) + "\n" * chance.choice((0, 0, 1, 2, 5)))
            parts.append(chance.choice(("", "a", "1", "{", "日", "...", "\r")))
        yield "".join(parts)


def _numbers(chance: random.Random) -> Iterator[str]:
    digits = "0123456789٣६௪１²½Ⅷ"
    while True:
        number = "".join(chance.choices(digits[: chance.choice((10, len(digits)))], k=chance.randrange(1, 12)))
        word = chance.choice(_WORDS) + chance.choice(_CONTRACTIONS) + chance.choice(("", " ", "re", "s"))
        marks = "".join(chance.choices(_PUNCTUATION, k=chance.randrange(5)))
        parts = [number, word, marks, chance.choice(_CONTRACTIONS)]
        chance.shuffle(parts)
        yield chance.choice(("", " ")).join(parts)


def _specials(specials: Sequence[str], chance: random.Random) -> Iterator[str]:
    """Added tokens alone, in a row, in text, in white space, and cut."""
    known = list(specials) or ["<s>"]
    for token in known[:2000]:
        yield from (token, token + token, f" {token} ", f"a{token}b", token[:-1], token[1:], token.upper())
    while True:
        parts = []
        for _ in range(chance.randrange(1, 6)):
            token = chance.choice(known)
            cut = chance.randrange(len(token) + 1)
            parts.append(chance.choice((token, token, token, token[:cut], token[cut:])))
            parts.append(chance.choice(("", "", " ", "\n", "\n\n", "a", "é", "user\nHi", '{"name": "f"}')))
        yield "".join(parts)


def _rows(pieces: Sequence[str], chance: random.Random) -> Iterator[str]:
    """Texts of random tokens, one after the other: what merges must take apart again."""
    while True:
        yield "".join(chance.choices(pieces, k=chance.randrange(1, 24)))


def _noise(chance: random.Random) -> Iterator[str]:
    while True:
        top = chance.choice((0x80, 0x80, 0x250, 0x3000, 0xD800, sys.maxunicode + 1))
        ids = (chance.randrange(top) for _ in range(chance.randrange(1, 40)))
        yield "".join(chr(i) for i in ids if not 0xD800 <= i < 0xE000)


def _bytes(chance: random.Random) -> Iterator[str]:
    while True:
        raw = chance.randbytes(chance.randrange(1, 48))
        yield raw.decode(chance.choice(("latin-1", "utf-8", "utf-8", "cp437", "utf-16-le")), errors="replace")


def _runs(specials: Sequence[str], chance: random.Random) -> Iterator[str]:
    """One thing very often, up to some thousand characters."""
    known: list[Any] = [
        "a",
        "ab",
        " ",
        "\n",
        "\t",
        "0",
        "-",
        "=",
        "日",
        "é",
        "😀",
        "e\u0301",
        "aA",
        "'s",
        "\r\n",
        ". ",
        "Ġ",
    ]
    known += list(specials)[:40]
    while True:
        length = chance.choice((3, 17, 64, 65, 255, 257, 1000))
        text = chance.choice(known)
        yield (text * length)[: chance.choice((length, 4000))] + chance.choice(("", "\n", " end"))


def _long(chance: random.Random, count: int) -> Iterator[str]:
    """Texts of 50,000 characters and more: tokenizers may divide them, or give up on a run without end."""
    strings = [_code(), _noise(chance), _white_space(chance), _numbers(chance), _combining(chance)]
    for number in range(count):
        if number % 3 == 0:
            yield chance.choice(("a", " ", "\n", "1", "=", "日", "ab ", "😀", "e\u0301", "x\n\n")) * 50_000
            continue
        start, text = chance.randrange(200_000), prose()
        mixed = [next(chance.choice(strings)) for _ in range(1_000)]
        yield text[start : start + 20_000] + "".join(mixed) + text[start : start + 20_000]
