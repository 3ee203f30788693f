"""`parser_step` "token": whatever its chunks, a stream is what vLLM makes of it at one token a chunk."""

from __future__ import annotations

from typing import Any

import pytest
from vllm.entrypoints.generate.base.protocol import DeltaFunctionCall, DeltaMessage, DeltaToolCall

from core.parsing.live import merge_deltas
from tests.equality import joined, ours
from tests.equality.cases import Models, cases
from tests.equality.outputs import Pair
from tests.equality.test_equality import ANSWERS, GROUP, PAIRS, title

COARSE = ("by 1", "by 3", "by 7", "whole", "by 5, end apart", "random 1", "random 2")
EVERY = 4
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
def test_chunks_do_not_count(deployed: Models, number: int, pair: Pair, folder: str) -> None:
    model = deployed.deployment(pair, folder, parser_step="token")
    compared = 0
    for place, case in enumerate(cases(model, pair, folder)):
        if (place + number) % EVERY:
            continue
        chunking = COARSE[(place // EVERY + number) % len(COARSE)]
        if case.chunkings[chunking][-1] == 0:  # an end without a token is another stream than one with it
            chunking = "whole"
        expected, _ = ANSWERS[title(pair)][case.name].expected("by 1")
        stream = ours.streamed(model, case, chunking)
        assert joined.digest(stream) == expected, f"{case.name}, {chunking}: {stream}"
        compared += 1
    assert compared > 1


def test_streams_of_two_steps_are_not_mixed(deployed: Models) -> None:
    models = [deployed.deployment(("hermes", "qwen3"), "qwen3", parser_step=step) for step in ("chunk", "token")]
    assert models[0].stream_config != models[1].stream_config


def call(index: int, arguments: str | None = None, **fields: Any) -> DeltaToolCall:
    name = fields.pop("name", None)
    return DeltaToolCall(index=index, function=DeltaFunctionCall(name=name, arguments=arguments), **fields)


def test_deltas_are_merged_as_a_client_would() -> None:
    deltas = [
        DeltaMessage(reasoning="a"),
        DeltaMessage(reasoning="b", content="c"),
        DeltaMessage(content="d", tool_calls=[call(0, name="f", id="x", type="function")]),
        DeltaMessage(tool_calls=[call(0, '{"a"'), call(1, "", name="g", id="y", type="function")]),
        DeltaMessage(tool_calls=[DeltaToolCall(index=1), call(0, ": 1}"), call(1, "{}")]),
    ]
    before = [delta.model_dump() for delta in deltas]
    merged = merge_deltas(deltas)
    assert [delta.model_dump() for delta in deltas] == before
    assert (merged.reasoning, merged.content) == ("ab", "cd")
    found = [(c.index, c.id, c.type, c.function.name, c.function.arguments) for c in merged.tool_calls]
    assert found == [(0, "x", "function", "f", '{"a": 1}'), (1, "y", "function", "g", "{}")]
    assert merge_deltas([]) is None
    # vLLM's apertus begins a call so, at one token a chunk.
    twice = DeltaMessage(tool_calls=[call(0, "", name="f", id="x", type="function"), call(0, "{")])
    (one,) = merge_deltas([twice]).tool_calls
    assert (one.id, one.function.name, one.function.arguments) == ("x", "f", "{")
