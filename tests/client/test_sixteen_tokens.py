"""Sixteen tokens, the default of vLLM's sampling parameters, on every way to the engine: asked for, they are given.

An engine that is not told its limit gives all that its context holds, so a
render that leaves out what equals a default loses exactly this number.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.client.calling import SyncCaller
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.xdist_group("client")

HTTP = httpx.Client(timeout=PATIENCE)
LIMITS = (15, 16, 17)


def chat(limit: int) -> dict[str, Any]:
    return {"model": "qwen3", "messages": [{"role": "user", "content": "long"}], "max_tokens": limit}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_round_trip_by_hand(service: str, engine: str, limit: int) -> None:
    """As in the README."""
    request = HTTP.post(f"{service}/v1/chat/completions/render", json=chat(limit)).json()
    assert request["sampling_params"]["max_tokens"] == limit
    generated = HTTP.post(f"{engine}/inference/v1/generate", json=request).json()
    (choice,) = generated["choices"]
    assert (len(choice["token_ids"]), choice["finish_reason"]) == (limit, "length")


@pytest.mark.parametrize("limit", LIMITS)
def test_through_the_client(open_client: type[SyncCaller], service: str, engine: str, limit: int) -> None:
    with open_client(service, engine) as client:
        whole = client.ask("chat", chat(limit))
        assert whole["usage"]["completion_tokens"] == limit
        assert whole["choices"][0]["finish_reason"] == "length"
        chunks = client.ask("stream_chat", {**chat(limit), "stream_options": {"include_usage": True}})
        assert chunks[-1]["usage"]["completion_tokens"] == limit


def test_a_completion_without_a_limit(open_client: type[SyncCaller], service: str, engine: str) -> None:
    """OpenAI's default is sixteen."""
    with open_client(service, engine) as client:
        whole = client.ask("completion", {"model": "qwen3", "prompt": "long"})
    assert whole["usage"]["completion_tokens"] == 16
    assert whole["choices"][0]["finish_reason"] == "length"


def test_an_engine_that_is_not_told_gives_more(service: str, engine: str) -> None:
    """Why the limit is written: as vLLM's engine, so the scripted one."""
    request = HTTP.post(f"{service}/v1/chat/completions/render", json=chat(16)).json()
    del request["sampling_params"]["max_tokens"]
    generated = HTTP.post(f"{engine}/inference/v1/generate", json=request).json()
    assert len(generated["choices"][0]["token_ids"]) > 16
