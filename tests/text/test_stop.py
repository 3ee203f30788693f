"""Stops against vLLM's own ``check_stop_strings``, and the rules for stop tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vllm.v1.engine.detokenizer import check_stop_strings

from core.text.stop import EosTokens, StopOptions, cut_stop_string, drop_stop_token, stop_strings, strings_to_cut

EOS = EosTokens(primary=2, every=frozenset({2, 3}))


@given(
    head=st.text("ab", max_size=8),
    tail=st.text("ab", max_size=8),
    stop=st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
    include=st.booleans(),
)
def test_equals_vllm(head: str, tail: str, stop: list[str], include: bool) -> None:
    match = check_stop_strings(head + tail, len(tail), stop, include)
    text, found = cut_stop_string(head + tail, len(tail), stop, include)
    if match is None:
        assert (text, found) == (head + tail, None)
    else:
        string, end = match
        assert found == string
        assert text == (head + tail if end == -1 else (head + tail)[:end])


def test_the_string_that_is_complete_first_wins() -> None:
    assert cut_stop_string("abcde", 5, ["bcd", "bc"], False) == ("a", "bc")
    assert cut_stop_string("abcde", 5, ["bcd", "bc"], True) == ("abc", "bc")


def test_a_match_must_reach_into_the_new_text() -> None:
    assert cut_stop_string("stop here", 4, ["stop"], False) == ("stop here", None)
    assert cut_stop_string("stop here", 5, ["op h"], False) == ("st", "op h")


@pytest.mark.parametrize(
    ("finish", "reported", "options", "ids", "reason"),
    [
        ("stop", None, StopOptions(), [7, 8], None),  # the model's own end: dropped, and not named
        ("stop", 9, StopOptions(), [7, 8, 2], 9),  # the engine named another token: nothing is dropped
        ("stop", 2, StopOptions(), [7, 8], 2),
        ("length", None, StopOptions(), [7, 8, 2], None),
        ("stop", "word", StopOptions(), [7, 8, 2], "word"),
        ("stop", None, StopOptions(ignore_eos=True), [7, 8, 2], None),
        ("stop", None, StopOptions(include_in_output=True), [7, 8, 2], None),
    ],
)
def test_stop_token(
    finish: str, reported: int | str | None, options: StopOptions, ids: list[int], reason: int | str | None
) -> None:
    assert drop_stop_token([7, 8, 2], finish, reported, options, EOS) == (ids, reason)


def test_an_unreported_stop_token_is_named_unless_it_is_the_usual_end() -> None:
    assert drop_stop_token([7, 3], "stop", None, StopOptions(), EOS) == ([7], 3)
    assert drop_stop_token([7, 5], "stop", None, StopOptions(token_ids=frozenset({5})), EOS) == ([7], 5)
    assert drop_stop_token([7, 3], "stop", None, StopOptions(ignore_eos=True), EOS) == ([7, 3], None)


def test_which_strings_may_cut() -> None:
    options = StopOptions(strings=("a", "b"))
    assert strings_to_cut("stop", None, options) == ("a", "b")
    assert strings_to_cut("stop", "x", options) == ("x",)
    assert strings_to_cut("stop", 5, options) == ()
    assert strings_to_cut("length", None, options) == ()
    assert stop_strings("x") == ("x",)
    assert stop_strings(["", "y"]) == ("y",)
    assert stop_strings(None) == ()
