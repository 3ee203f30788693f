"""Repaired answers: no chunking changes what an output says."""

from __future__ import annotations

import pytest

from tests.equality import ours, repaired
from tests.equality.cases import Models, cases
from tests.equality.outputs import Pair
from tests.equality.test_equality import GROUP, PAIRS, title

CHUNKINGS = ("by 1", "by 3", "by 7", "whole", "by 5, end apart", "random 1", "random 2", "random 3")
EVERY = 3
"""One output in so many, in rotation over the pairs, and always in another chunking."""


@pytest.mark.parametrize(
    ("number", "pair", "folder"),
    [
        pytest.param(
            i, *one, id=title(one[0]).replace(" ", ""), marks=pytest.mark.xdist_group(f"equality-{i // GROUP}")
        )
        for i, one in enumerate(PAIRS)
        if one[0] != (None, None)
    ],
)
def test_a_stream_says_what_the_whole_output_says(deployed: Models, number: int, pair: Pair, folder: str) -> None:
    model = deployed.deployment(pair, folder, answers="repaired")
    compared = 0
    for place, case in enumerate(cases(model, pair, folder)):
        if (place + number) % EVERY:
            continue
        chunking = CHUNKINGS[(place // EVERY + number) % len(CHUNKINGS)]
        assert ours.streamed(model, case, chunking) == ours.one_shot(model, case), f"{case.name}, {chunking}"
        compared += 1
    assert compared > 1


def test_the_page_says_that_no_stream_differs() -> None:
    text = repaired.PAGE.read_text(encoding="utf-8")
    assert "**0 differ from their one-shot answer**" in text
    assert text.count("\n| ") == len(PAIRS) - 1 + text[: text.index("## By parser")].count("\n| ") + 1
