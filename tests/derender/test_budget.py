"""The CPU time that parsing may take of one call: gathered chunks, replays and many choices end at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.bundle.folder import FolderFiles
from core.derender.chat import derender_chat
from core.derender.stream import derender_chat_stream
from core.errors import BadRequest, InvalidState
from core.model import Model, load_model
from core.options import ModelOptions
from core.parsing.budget import ParserBudget
from core.protocol.derender import DerenderChatRequest, DerenderChatStreamRequest

PROMPT = [151644, 872, 198, 6023, 151645, 198, 151644, 77091, 198]
REQUEST = {"messages": [{"role": "user", "content": "Weather?"}]}
# Longer than no time at all, shorter than any step.
KEY = "k" * 32
NOTHING = 1e-9


@pytest.fixture(scope="module")
def model_with(models_dir: Path) -> Callable[..., Model]:
    def load(**options: Any) -> Model:
        parsers = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True}
        return load_model(FolderFiles(models_dir / "qwen3"), ModelOptions(("m",), **parsers, **options))

    return load


def chunks(count: int) -> list[dict[str, Any]]:
    return [{"request_id": "r", "choices": [{"index": 0, "token_ids": [264]}]}] * count


def stream(model: Model, **fields: Any) -> dict[str, Any]:
    body = {"stream": True, "chat_request": REQUEST, "prompt_token_ids": PROMPT, **fields}
    return derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))


def test_the_time_is_counted_from_the_beginning_of_the_call() -> None:
    now = 100.0
    budget = ParserBudget(2.0, lambda: now)
    now = 102.0
    budget.check()
    now = 102.1
    with pytest.raises(BadRequest, match=r"parser_budget of 2 seconds"):
        budget.check()
    ParserBudget(0, lambda: now).check()


def test_gathered_chunks(model_with: Callable[..., Model]) -> None:
    with pytest.raises(BadRequest, match="parser_budget"):
        stream(model_with(parser_budget=NOTHING), generate_chunks=chunks(3))
    for seconds in (0, 60):
        assert len(stream(model_with(parser_budget=seconds), generate_chunks=chunks(3))["chunks"]) == 3


def test_a_replay(model_with: Callable[..., Model]) -> None:
    begun = stream(model_with(stream_state="replay"), generate_chunks=chunks(5))
    following = {"generate_chunk": chunks(1)[0], "stream_state": begun["stream_state"]}
    with pytest.raises(BadRequest, match="parser_budget"):
        stream(model_with(stream_state="replay", parser_budget=NOTHING), **following)
    assert stream(model_with(stream_state="replay"), **following)


def test_a_replay_that_nobody_signed_must_be_cheap(model_with: Callable[..., Model]) -> None:
    begun = stream(model_with(stream_state="replay"), generate_chunks=chunks(5))
    following = {"generate_chunk": chunks(1)[0], "stream_state": begun["stream_state"]}
    for options in ({}, {"parser_budget": 0}, {"state_keys": [KEY], "state_signature_required": False}):
        with pytest.raises(BadRequest, match="replay_budget") as caught:
            stream(model_with(stream_state="replay", replay_budget=NOTHING, **options), **following)
        assert caught.value.param == "stream_state.output_token_ids"
    assert stream(model_with(stream_state="replay", replay_budget=0), **following)


def test_a_replay_that_was_signed_has_the_time_of_the_call(model_with: Callable[..., Model]) -> None:
    model = model_with(stream_state="replay", replay_budget=NOTHING, state_keys=[KEY])
    begun = stream(model, generate_chunks=chunks(5))
    following = {"generate_chunk": chunks(1)[0], "stream_state": begun["stream_state"]}
    assert stream(model, **following)
    unsigned = {**begun["stream_state"], "signature": None}
    with pytest.raises(InvalidState, match="signature is missing"):
        stream(model, **{**following, "stream_state": unsigned})


def test_many_choices(model_with: Callable[..., Model]) -> None:
    choices = [{"index": index, "token_ids": [264, 151645]} for index in range(3)]
    body = {"chat_request": REQUEST, "generate_response": {"choices": choices, "prompt_token_ids": PROMPT}}
    with pytest.raises(BadRequest, match="parser_budget"):
        derender_chat(model_with(parser_budget=NOTHING), DerenderChatRequest.model_validate(body))
    assert len(derender_chat(model_with(), DerenderChatRequest.model_validate(body))["choices"]) == 3
