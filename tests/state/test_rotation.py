"""Streams in flight while a key rotates or a version is rolled out: chunks go to the old and the new version in turn.

The steps are those of ``docs/operations.md``; a gradual deployment sends any
chunk of a stream to either version.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from core.derender.stream import derender_chat_stream
from core.errors import InvalidState
from core.model import Model
from core.protocol.derender import DerenderChatStreamRequest
from tests.support.models import load

A, B = "a" * 64, "b" * 64
TEXT = [40, 1079, 19771, 13, 151645]
STEPS = [([A], [A, B]), ([A, B], [B, A]), ([B, A], [B])]


def version(folder: Path, *keys: str, **options: Any) -> Model:
    settings = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True, **options}
    return load(folder / "qwen3", served_names=("m",), state_keys=keys, **settings)


def stream(*versions: Model) -> str:
    """One stream, each chunk to the next version."""
    text, state = "", None
    for number, (token, model) in enumerate(zip(TEXT, cycle(versions), strict=False)):
        finish = "stop" if number == len(TEXT) - 1 else None
        choice = {"index": 0, "token_ids": [token], "finish_reason": finish}
        body = DerenderChatStreamRequest.model_validate(
            {
                "stream": True,
                "generate_chunk": {"request_id": "r", "choices": [choice]},
                "stream_state": state,
                "prompt_token_ids": [1, 2],
                "chat_request": {
                    "model": "m",
                    "messages": [{"role": "user", "content": "Hi"}],
                    "chat_template_kwargs": {"enable_thinking": False},
                },
            }
        )
        answer = derender_chat_stream(model, body)
        state = answer["stream_state"]
        assert state["signature"]
        text += "".join(choice["delta"].get("content") or "" for choice in answer["chunk"]["choices"])
    return text


@pytest.mark.parametrize(("old", "new"), STEPS, ids=["accept the new key", "sign with it", "forget the old one"])
def test_each_step_of_a_rotation_keeps_streams_in_flight(models_dir: Path, old: list[str], new: list[str]) -> None:
    before, after = version(models_dir, *old), version(models_dir, *new)
    expected = stream(before)
    assert expected
    assert stream(before, after) == stream(after, before) == expected


def test_a_key_that_signs_before_all_accept_it_breaks_them(models_dir: Path) -> None:
    before, after = version(models_dir, A), version(models_dir, B, A)
    assert stream(before), "the old version alone goes on"
    with pytest.raises(InvalidState, match="signature"):
        stream(after, before)


def test_a_version_with_the_same_settings_goes_on_with_a_stream(models_dir: Path) -> None:
    assert stream(version(models_dir, A), version(models_dir, A)) == stream(version(models_dir, A))


@pytest.mark.parametrize("change", [{"reasoning_parser": None}, {"default_chat_template_kwargs": {"x": 1}}])
def test_a_version_that_would_split_the_text_otherwise_says_so(models_dir: Path, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidState, match="config"):
        stream(version(models_dir, A), version(models_dir, A, **change))
