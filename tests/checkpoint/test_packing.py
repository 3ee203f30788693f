"""Packing: what goes in comes out, written once, and nothing hostile costs more than its size."""

from __future__ import annotations

import base64
import json
import random
import string
import time
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.parsing.checkpoint import InvalidCheckpoint, Limits, pack, unpack
from core.parsing.checkpoint.sharing import share, unshare

LIMITS = Limits()
SURROGATES = st.text(st.characters(codec=None, categories=None), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False)
    | st.text(max_size=30)
    | SURROGATES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)


def encoded(raw: bytes, mark: str = "z") -> str:
    return mark + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def long_text(rng: random.Random, length: int) -> str:
    alphabet = string.ascii_letters + ' \n\t"\\{}[],:é日🌦' + "\x00\x1f\x7f"
    return "".join(rng.choices(alphabet, k=length))


@given(st.lists(VALUES, max_size=8))
@settings(derandomize=True, deadline=None)
def test_what_is_packed_is_unpacked(data: list[Any]) -> None:
    assert unpack(pack(data), LIMITS) == data


def test_the_alphabet_is_that_of_urls() -> None:
    rng = random.Random(1)
    text = pack([long_text(rng, 3000), list(range(500))])
    assert set(text) <= set(string.ascii_letters + string.digits + "-_")


@pytest.mark.parametrize("seed", range(40))
def test_texts_that_repeat_each_other_come_back(seed: int) -> None:
    rng = random.Random(seed)
    text = long_text(rng, rng.randint(600, 4000))
    escaped = json.dumps(text, ensure_ascii=False)
    low, high = sorted(rng.sample(range(len(text)), 2))
    data = [
        1,
        '{"content": ' + escaped[: rng.randint(500, len(escaped))],
        [["", "write_file", "<parameter=content>\n" + text + "\n</par"], {"content": text[low:high], "path": "x"}],
        "head " + text[: rng.randint(300, len(text))] + " tail",
    ]
    shared = share(data)
    assert unshare(json.loads(json.dumps(shared)), LIMITS.max_bytes) == data
    assert unpack(pack(data), LIMITS) == data


def test_a_text_and_its_escaped_form_are_written_once() -> None:
    rng = random.Random(3)
    text = long_text(rng, 6000)
    once = len(pack(['{"content": ' + json.dumps(text, ensure_ascii=False)]))
    both = pack(['{"content": ' + json.dumps(text, ensure_ascii=False), ["<parameter=content>\n" + text]])
    assert len(both) < once + 200


def test_sharing_changes_nothing_in_place() -> None:
    text = long_text(random.Random(4), 2000)
    data = [text, {"a": [text]}]
    share(data)
    assert data == [text, {"a": [text]}]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 2**64, -(2**70), "\ud800", "a\udfffb"])
def test_what_json_does_not_have_is_kept(value: Any) -> None:
    assert unpack(pack([value, {"a": [value]}]), LIMITS) == [value, {"a": [value]}]


def test_a_number_that_is_none_is_kept() -> None:
    (value,) = unpack(pack([float("nan")]), LIMITS)
    assert value != value


def test_text_that_repeats_itself_is_carried() -> None:
    data = ["a" * 500_000]
    assert unpack(pack(data), LIMITS) == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "z",
        "zA",
        "z!!!!",
        "zAA+/",
        "z" + "A" * 100,
        "jbm90IGpzb24",
        "\ud800",
        "zé",
        encoded(b"{}", "j"),
        encoded(b"[[1],[],[]]", "j"),
        encoded(b'[["",""],[0],[[[1],"",0,1,0,""]]]', "j"),
        encoded(b'[["ab",""],[0],[[[1],"",-1,1,0,""]]]', "j"),
        encoded(b'[["ab",""],[0],[[[1],"",0,3,0,""]]]', "j"),
        encoded(b'[["ab",""],[0],[[[9],"",0,1,0,""]]]', "j"),
        encoded(b'[["ab",""],[0],[[[true],"",0,1,0,""]]]', "j"),
        encoded(b'[["ab",""],[0],[[[],"",0,1,0,""]]]', "j"),
        encoded(b'[["ab",""],[0],[[[1],7,0,1,0,""]]]', "j"),
        encoded(b'[["a\\\\",""],[0],[[[1],"",0,2,1,""]]]', "j"),
        encoded(b'[[{"a":1}],["a"],[]]', "j"),
        encoded(zlib.compress(b"[[1]]") + b"more"),
        encoded(zlib.compress(b"[[1]]")[:-3]),
        encoded(b"[" * 200_000, "j"),
        encoded(b"[" * 200_000, "J"),
        encoded(b"[[" + b"9" * 5000 + b"]]", "J"),
    ],
)
def test_what_was_not_packed_is_refused(text: str) -> None:
    with pytest.raises(InvalidCheckpoint):
        unpack(text, LIMITS)


def test_a_packed_bomb_is_refused_at_once() -> None:
    bomb = encoded(zlib.compress(b'[["' + b"a" * 30_000_000 + b'"]]', 9))
    assert len(bomb) < 50_000
    start = time.process_time()
    with pytest.raises(InvalidCheckpoint, match="too large"):
        unpack(bomb, Limits(2**40))
    assert time.process_time() - start < 1  # second of CPU


def test_parts_cannot_add_up_to_more_than_the_limit() -> None:
    base = "a" * 10_000
    data = [base, *[""] * 1000]
    parts = [[[i], "", 0, 10_000, 0, ""] for i in range(1, 1001)]
    raw = json.dumps([data, [0], parts]).encode()
    with pytest.raises(InvalidCheckpoint, match="too large"):
        unpack(encoded(raw, "j"), Limits(1_000_000))


def test_the_limit_is_the_deployments() -> None:
    text = pack(["".join(random.Random(5).choices(string.ascii_letters, k=200_000))])
    assert unpack(text, Limits.of_model_len(32768))
    with pytest.raises(InvalidCheckpoint, match="too large"):
        unpack(text, Limits.of_model_len(512))
