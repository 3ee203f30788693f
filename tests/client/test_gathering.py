"""The bookkeeping of gathering: nothing lost, nothing out of order, no batch too large or too late."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from derender_client._gathering import Gathering


def chunk(number: int, size: int, finish_reason: str | None = None) -> dict[str, Any]:
    return {"number": number, "choices": [{"token_ids": [0] * size, "finish_reason": finish_reason}]}


def test_a_batch_is_due_when_it_is_full_or_finished() -> None:
    gathering = Gathering(3)
    gathering.add(0, chunk(0, 2), 0)
    assert not gathering.full
    assert gathering.due(1000) == []
    assert gathering.wait(0) is None
    gathering.add(1, chunk(1, 1, "stop"), 0)
    assert gathering.full
    assert gathering.due(0) == [(1, [chunk(1, 1, "stop")])]
    gathering.add(0, chunk(2, 1), 0)
    assert gathering.due(0) == [(0, [chunk(0, 2), chunk(2, 1)])]
    assert gathering.rest() == []


def test_a_batch_is_due_when_its_first_chunk_has_waited() -> None:
    gathering = Gathering(10, 0.5)
    assert gathering.wait(7) is None
    gathering.add(0, chunk(0, 1), 7)
    gathering.add(1, chunk(1, 1), 7.25)
    assert gathering.wait(7.25) == 0.25
    assert gathering.due(7.25) == []
    assert gathering.due(7.5) == [(0, [chunk(0, 1)])]
    assert gathering.wait(7.5) == 0.25
    assert gathering.wait(9) == 0
    assert gathering.rest() == [(1, [chunk(1, 1)])]


def test_what_does_not_fit_starts_the_next_batch() -> None:
    gathering = Gathering(4)
    for number in range(2):
        gathering.add(0, chunk(number, 3), number)
    assert gathering.due(1) == [(0, [chunk(0, 3)])]
    assert gathering.due(1) == []
    gathering.add(0, chunk(2, 9, "stop"), 2)
    assert gathering.due(2) == [(0, [chunk(1, 3)])]
    assert gathering.due(2) == [(0, [chunk(2, 9, "stop")])]


def test_chunks_without_tokens_count() -> None:
    gathering = Gathering(2)
    gathering.add(0, {"choices": [{"token_ids": None}]}, 0)
    gathering.add(0, {"choices": [{}]}, 0)
    assert len(gathering.due(0)[0][1]) == 2


@given(
    tokens=st.integers(1, 9),
    seconds=st.none() | st.floats(0, 3),
    events=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans(), st.floats(0, 1))),
)
@settings(max_examples=200, deadline=None)
def test_every_chunk_goes_once_in_order(
    tokens: int, seconds: float | None, events: list[tuple[int, int, bool, float]]
) -> None:
    gathering = Gathering(tokens, seconds)
    got: dict[int, list[int]] = {}
    added: dict[int, list[int]] = {}
    arrived: dict[int, float] = {}
    now = 0.0

    def take(batches: list[tuple[int, list[dict[str, Any]]]]) -> None:
        for index, batch in batches:
            sizes = [max(len(one["choices"][0]["token_ids"]), 1) for one in batch]
            assert sum(sizes) <= tokens or len(batch) == 1
            got.setdefault(index, []).extend(one["number"] for one in batch)

    for number, (index, size, finished, pause) in enumerate(events):
        now += pause
        gathering.add(index, chunk(number, size, "stop" if finished else None), now)
        added.setdefault(index, []).append(number)
        arrived[number] = now
        while batches := gathering.due(now):
            take(batches)
        assert not gathering.full
        waiting = [arrived[one] for i, numbers in added.items() for one in numbers[len(got.get(i, [])) :]]
        if seconds is not None and waiting:
            assert min(waiting) + seconds > now
            assert gathering.wait(now) is not None
    while batches := gathering.rest():
        take(batches)
    assert got == added
