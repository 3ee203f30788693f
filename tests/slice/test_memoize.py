"""MEMOIZE: a function is called once for the same objects, and its source stays what it was."""

import pytest

from infra.slice.errors import MissingDefinition
from infra.slice.memoize import memoize

SOURCE = "def table(a, b):\n    return [a, b]\n"


def test_the_function_is_called_once_for_the_same_objects() -> None:
    space: dict[str, object] = {}
    exec(memoize("m", SOURCE, ("table",), "the test"), space)
    table = space["table"]
    assert callable(table)
    one, other = [1], [1]
    assert table(one, 2) is table(one, 2)
    assert table(one, 2) is not table(other, 2)  # equal, and not the same object
    assert table(one, 2) == table(other, 2)


def test_it_forgets_before_it_holds_too_much() -> None:
    from vllm._slice.memo import memoized

    calls: list[int] = []

    def count(value: object) -> int:
        calls.append(1)
        return len(calls)

    remembered = memoized(count)
    kept = [object() for _ in range(200)]
    assert [remembered(k) for k in kept] == list(range(1, 201))
    assert remembered(kept[-1]) == 200


def test_a_function_that_is_gone_stops_the_build_with_its_name() -> None:
    with pytest.raises(MissingDefinition, match="other"):
        memoize("m", SOURCE, ("other",), "the test")


def test_the_lexer_of_a_parser_engine_is_built_once() -> None:
    from vllm.parser.engine import streaming_parser_engine

    assert hasattr(streaming_parser_engine._build_drop_info, "__wrapped__")
