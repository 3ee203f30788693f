"""Long lists are written in pieces: the same bytes, in memory that grows with what comes out."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from core.protocol.json_text import json_bytes, long_json_bytes
from core.render.generate_request import Rendered

IDS = list(range(5_000))
VALUES: dict[str, Any] = {
    "nothing": {},
    "one list": IDS,
    "ids of an object": {"request_id": "r", "token_ids": IDS, "n": None},
    "a rendered request": Rendered(token_ids=IDS, features=None),
    "requests": [Rendered(token_ids=IDS)] * 3,
    "choices": {"choices": [{"index": 0, "token_ids": IDS}, {"index": 1, "texts": ["a", 'b"'] * 2_000}]},
    "many choices": [{"index": 0, "token_ids": [1]}] * 3_000,
    "many choices, one of them long": [{"token_ids": [1]}] * 3_000 + [{"token_ids": IDS}],
    "odd items": [1, None, {}, [], "x", 1.5] * 1_000,
    "half of a pair": {"texts": ["a", "\ud800"] * 2_000},
    "large numbers": [2**70] * 3_000,
}


@pytest.mark.parametrize("name", VALUES)
def test_pieces_are_what_the_whole_is(name: str) -> None:
    assert long_json_bytes(VALUES[name]) == json_bytes(VALUES[name])


def test_memory_is_a_few_times_what_comes_out() -> None:
    answer = {"tokens": [22] * 500_000}
    tracemalloc.start()
    try:
        written = long_json_bytes(answer)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(written) + 1_000_000
