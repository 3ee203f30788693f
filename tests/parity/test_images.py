"""What a comparison of pictures tells: a value, a token or a status that differs, and nothing else."""

from __future__ import annotations

import base64
import sys
from typing import Any

import msgspec
import pytest

from tests.parity.images import Row, count_answers
from tests.parity.pictures import Picture, pictures

PICTURE = [Picture("a", "real", b"")]


def item(data: bytes, dtype: str = "uint8", rows: int = 2, slices: Any = None) -> str:
    field = ["flat", {"dim": 0, "keep_on_cpu": False, "slices": slices}]
    tensor = {"data": [dtype, [rows, len(data) // rows], msgspec.msgpack.Ext(3, data)], "field": field}
    return base64.b64encode(msgspec.msgpack.encode({"pixel_values": tensor})).decode()


def answer(**changes: Any) -> tuple[int, Any]:
    features = {"mm_hashes": {"image": ["h"]}, "mm_placeholders": {"image": [{"offset": 1, "length": 1}]}}
    features |= {"kwargs_data": {"image": [item(b"abcdef")]}, "mm_metadata": None}
    body: Any = {"token_ids": [1, 2], "sampling_params": {}, "features": {**features, **changes}}
    return 200, body


def told(theirs: tuple[int, Any], ours: tuple[int, Any]) -> Row:
    row = Row("m")
    count_answers(row, PICTURE, theirs, ours)
    return row


def test_equal_answers() -> None:
    row = told(answer(kwargs_data={"image": [item(b"abcdef", slices=[[[0, 2, None]]])]}), answer())
    assert (row.different, row.values, row.requests["real"]) == ([], 6, 1), "slices depend on a server's history"


@pytest.mark.parametrize(
    "changes",
    [
        {"mm_hashes": {"image": ["other"]}},
        {"mm_placeholders": {"image": [{"offset": 0, "length": 1}]}},
        {"kwargs_data": {"image": [item(b"abcdeX")]}},
        {"kwargs_data": {"image": [item(b"abcdef", rows=3)]}},
        {"kwargs_data": {"image": [item(b"abcdef", dtype="int8")]}},
        {"kwargs_data": {"image": []}},
        {"kwargs_data": None},
        {"mm_metadata": {"image": [None]}},
    ],
)
def test_a_difference_is_told(changes: dict[str, Any]) -> None:
    row = told(answer(), answer(**changes))
    assert len(row.different) == 1
    assert row.different_values == (changes == {"kwargs_data": {"image": [item(b"abcdeX")]}})


def test_other_ids_and_other_statuses_are_told() -> None:
    other = answer()
    other[1]["token_ids"] = [1]
    assert told(answer(), other).different
    refusal = (400, {"error": {"message": "no"}})
    assert told(refusal, answer()).different
    assert told((500, {"error": {}}), (500, {"error": {}})).different, "a fault of both is no agreement"
    assert (told(refusal, refusal).different, told(refusal, refusal).refused) == ([], 1)


def test_the_same_seed_makes_the_same_pictures() -> None:
    first, second = (pictures(sys.executable, 12, 5) for _ in range(2))
    assert first == second
    assert sum(picture.kind == "random sizes" for picture in first) == 12
    assert len({picture.data for picture in first}) == len(first)
