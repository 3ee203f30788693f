"""Callers wait in turn, each has a part of the room, and nobody is lost."""

from __future__ import annotations

import pytest

from handlers.work.line import Lines


def filled(most: int, *waiting: str) -> Lines[str]:
    """Lines in which these wait, named by their caller and a number."""
    lines: Lines[str] = Lines(most)
    for one in waiting:
        assert lines.join(one[0], one) is None
    return lines


def test_callers_are_next_in_turn() -> None:
    lines = filled(9, "a1", "a2", "a3", "b1", "c1", "b2")
    assert [lines.next() for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    with pytest.raises(IndexError):
        lines.next()


def test_one_caller_waits_as_he_came() -> None:
    lines = filled(3, "a1", "a2", "a3")
    assert lines.join("a", "a4") == "a4"
    assert [lines.next() for _ in range(3)] == ["a1", "a2", "a3"]


def test_where_there_is_no_room_the_last_of_the_longest_line_leaves() -> None:
    lines = filled(4, "a1", "a2", "a3", "a4")
    assert lines.join("b", "b1") == "a4"
    assert lines.join("b", "b2") == "a3"
    assert lines.join("b", "b3") == "b3", "both have two"
    assert lines.join("c", "c1") == "a2"
    assert lines.join("c", "c2") == "c2"
    assert len(lines) == 4
    assert [lines.next() for _ in range(4)] == ["a1", "b1", "c1", "b2"]


def test_who_leaves_is_not_next() -> None:
    lines = filled(4, "a1", "a2", "b1")
    lines.leave("b", "b1")
    lines.leave("b", "b1")
    lines.leave("a", "a1")
    assert len(lines) == 1
    assert lines.next() == "a2"
    lines.leave("a", "a2")
    assert not len(lines)


def test_without_room_nobody_waits() -> None:
    assert filled(0).join("a", "a1") == "a1"
