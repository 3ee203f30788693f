"""Which part of a text each piece of an answer is."""

from __future__ import annotations

import random

import pytest

from core.explain.align import Alignment, Kind


def kinds(text: str, pieces: list[tuple[Kind, str]]) -> str:
    """One letter a character: r, c, n, a, or m."""
    alignment = Alignment()
    alignment.read(text)
    for kind, piece in pieces:
        alignment.say(kind, piece)
    return "".join(alignment.kind(at, at + 1)[0] for at in range(len(text)))


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("<t>hm</t>yes", [("reasoning", "hm"), ("content", "yes")], "mmmrrmmmmccc"),
        ("hm hm hm", [("reasoning", "hm "), ("content", "hm "), ("reasoning", "hm")], "rrrcccrr"),
        ("f(a=1)", [("name", "f"), ("arguments", '{"a": 1}')], "nmamam"),
        ("<x>", [], "mmm"),
        ("ab", [("content", "")], "mm"),
        ("ab", [("content", "zz")], "mm"),
    ],
)
def test_pieces_are_found(text: str, pieces: list[tuple[Kind, str]], expected: str) -> None:
    assert kinds(text, pieces) == expected


def test_a_text_that_comes_in_parts() -> None:
    alignment = Alignment()
    places = []
    for part, piece in (("Hel", ""), ("lo<", "Hello"), ("x>", "")):
        places.append(alignment.read(part))
        alignment.say("content", piece)
    assert [alignment.kind(*place) for place in places] == ["content", "content", "markup"]


def test_any_pieces_of_any_text() -> None:
    """Nothing raises, and what is said in the order of the text is found whole."""
    rng = random.Random(3)
    for _ in range(300):
        parts = ["".join(rng.choices("ab <>\n{}", k=rng.randint(1, 5))) for _ in range(rng.randint(1, 9))]
        alignment = Alignment()
        alignment.read("".join(parts))
        for part in parts:
            alignment.say(rng.choice(("content", "reasoning")), part)
        at = 0
        for part in parts:
            assert alignment.kind(at, at + len(part)) in ("content", "reasoning")
            at += len(part)
