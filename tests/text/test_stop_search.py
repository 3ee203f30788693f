"""The search for stop strings against the plain rule: look at the end of the text after each character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadRequest
from core.text.stop import cut_stop_string
from core.text.stop_search import MAX_STRINGS, StopSearch

few_letters = st.text(alphabet="abc", max_size=40)
some_strings = st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=5)


def first_by_the_rule(text: str, strings: list[str], after: int) -> tuple[int, str] | None:
    for end in range(after + 1, len(text) + 1):
        for string in strings:
            if text[:end].endswith(string):
                return end, string
    return None


@given(text=few_letters, strings=some_strings, after=st.integers(0, 10))
@settings(max_examples=600, deadline=None)
def test_the_first_to_be_complete_is_found(text: str, strings: list[str], after: int) -> None:
    assert StopSearch(strings).feed(0, text, after)[1] == first_by_the_rule(text, strings, after)


@given(text=few_letters, strings=some_strings, cut=st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_it_does_not_matter_where_the_text_is_cut(text: str, strings: list[str], cut: int) -> None:
    search = StopSearch(strings)
    head, tail = text[:cut], text[cut:]
    # Past the end of the head nothing counts: read it for the state alone.
    state, found = search.feed(0, head, after=len(head))
    assert found is None
    state, found = search.feed(state, tail)
    expected = first_by_the_rule(text, strings, len(head))
    assert found == (None if expected is None else (expected[0] - len(head), expected[1]))
    if found is None:
        beginnings = [string[:n] for string in strings for n in range(len(string))]
        assert search.matched(state) == max(len(b) for b in beginnings if text.endswith(b))


@given(text=few_letters, strings=some_strings, searched=st.integers(0, 40), include=st.booleans())
@settings(max_examples=300, deadline=None)
def test_many_strings_cut_as_few_do(text: str, strings: list[str], searched: int, include: bool) -> None:
    searched = min(searched, len(text))
    absent = [chr(0x4E00 + n) for n in range(300)]
    few = cut_stop_string(text, searched, strings, include)
    assert cut_stop_string(text, searched, [*strings, *absent], include) == few


def test_a_search_is_bounded() -> None:
    with pytest.raises(BadRequest, match="stop must hold at most"):
        StopSearch(["x"] * (MAX_STRINGS + 1))
    with pytest.raises(BadRequest, match="stop must hold at most"):
        StopSearch(["x" * 70_000])


class CountedText(str):
    """A text that counts how often a character of it is read."""

    reads = 0

    def __iter__(self):  # type: ignore[no-untyped-def]
        for char in super().__iter__():
            CountedText.reads += 1
            yield char


def test_every_character_is_read_once_however_many_strings() -> None:
    """The beginning of a string again and again: what a plain search would look at over and over."""
    search = StopSearch(["a" * 30_000 + "b", *("a" * n + "c" for n in range(1, 200))])
    CountedText.reads = 0
    state, found = search.feed(0, CountedText("a" * 100_000))
    assert (search.matched(state), found) == (30_000, None)
    assert CountedText.reads == 100_000
