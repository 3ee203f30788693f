"""`parser_step` "token" in the relay: the same answers however the engine cuts them, stop strings included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.generation import Engine
from tests.relay.conftest import MODEL, PARSERS, Setup
from tests.support.streams import Choice, join

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
REQUESTS: dict[str, dict[str, Any]] = {
    "text": {"messages": [{"role": "user", "content": "What is 2+2?"}]},
    "a call": {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [WEATHER]},
    "a stop string": {"messages": [{"role": "user", "content": "What is 2+2?"}], "stop": ["= 4"]},
    "a stop string within a token": {"messages": [{"role": "user", "content": "count"}], "stop": ["3"], "n": 2},
}


@pytest.fixture(scope="module")
def by_chunks(start: Callable[..., Setup], make_engine: Callable[..., Engine]) -> dict[int, Setup]:
    """Relays by how many tokens their engine puts into a chunk."""
    return {size: start(make_engine(per_chunk=size), parser_step="token", **PARSERS) for size in (1, 2, 7, 1000)}


@pytest.mark.parametrize("name", REQUESTS)
def test_answers_do_not_depend_on_the_engines_chunks(by_chunks: dict[int, Setup], name: str) -> None:
    answers = {size: joined(setup, REQUESTS[name]) for size, setup in by_chunks.items()}
    first = answers[1]
    assert all(answer == first for answer in answers.values())
    for choice in first.values():
        assert choice.finish_reason == ("tool_calls" if name == "a call" else "stop")
        assert choice.calls if name == "a call" else choice.content or choice.reasoning
    if "stop" in REQUESTS[name]:
        assert all(choice.stop_reason == REQUESTS[name]["stop"][0] for choice in first.values())


def joined(setup: Setup, request: dict[str, Any]) -> dict[int, Choice]:
    """The choices of a streamed answer."""
    stream = setup.client.chat.completions.create(model=MODEL, stream=True, **request)
    choices = join(chunk.model_dump() for chunk in stream).choices
    for choice in choices.values():
        for call in choice.calls.values():
            call.id = None  # drawn at random
    return choices
