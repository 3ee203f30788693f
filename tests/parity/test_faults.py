"""What makes a comparison of parsers fail though both sides agree."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity.parsers import composed_nowhere, rows

WHOLE = "parse hermes|None qwen3 output 0 choice 0 {}"


@pytest.mark.parametrize("error", ["ImportError", "AttributeError", "TypeError", "RuntimeError", "ModuleNotFoundError"])
def test_an_error_of_code_on_both_sides_is_told(error: str) -> None:
    for result in (
        {"error": f"{error}: no such"},
        [1, {"error": f"{error}: no such"}],
        {"a": [{"error": f"{error}: x"}]},
    ):
        (row,) = rows({WHOLE: result}, {WHOLE: result})
        assert (row.different, row.broken) == ([], [WHOLE])


@pytest.mark.parametrize(
    "result", [{"error": "ValueError: no"}, {"error": "NotImplementedError: a stub"}, ["TypeError: x"]]
)
def test_what_a_parser_answers_is_not(result: Any) -> None:
    (row,) = rows({WHOLE: result}, {WHOLE: result})
    assert not row.broken


def test_a_difference_is_told() -> None:
    assert [row.different for row in rows({WHOLE: 1}, {WHOLE: 2})] == [[WHOLE]]
    assert [row.different for row in rows({WHOLE: 1}, {})] == [[WHOLE]]


def test_a_parser_that_composes_nowhere_is_told() -> None:
    refused = {"error": "TypeError: get_parser() got an unexpected keyword argument"}
    full = {
        "compose hermes|None qwen3": refused,
        "compose None|qwen3 qwen3": ["QwenParser"],
        "compose hf|None qwen3": refused,
    }
    assert composed_nowhere(full) == ["hermes"]
    assert composed_nowhere({**full, "compose hermes|None llama3": ["HermesParser"]}) == []
