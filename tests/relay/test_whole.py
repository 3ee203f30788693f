"""An answer in one piece is what render, generate and one-shot derender give one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.engine.generation import Engine
from tests.relay.conftest import MODEL, PARSERS, Setup
from tests.relay.test_openai_client import WEATHER

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
CHATS: dict[str, dict[str, Any]] = {
    "text": {"content": "Hello there"},
    "reasoning": {"content": "Why is the sky blue?"},
    "tool": {"content": "What is the weather in Paris?", "tools": [WEATHER]},
    "hidden reasoning": {"content": "Why is the sky blue?", "include_reasoning": False, "logprobs": True},
    "logprobs": {"content": "emoji", "logprobs": True, "top_logprobs": 3, "return_token_ids": True},
    "choices": {"content": "differ", "n": 3, "temperature": 1},
    "length": {"content": "count", "max_tokens": 7},
    "stop": {"content": "count", "stop": ["5, 6", "nothing"], "max_tokens": 100},
    "stop kept": {"content": "count", "stop": "5, 6", "include_stop_str_in_output": True, "max_tokens": 100},
    "stop late": {"content": "count", "stop": ",", "min_tokens": 9, "max_tokens": 100},
    "stop in choices": {"content": "differ", "n": 3, "temperature": 1, "stop": ["is longer", "or"]},
    "stop token": {"content": "count", "stop_token_ids": [11], "max_tokens": 100},
    "stop in a call": {"content": "What is the weather in Paris?", "tools": [WEATHER], "stop": ["</tool_call>"]},
    "prompt logprobs": {"content": "Hello there", "prompt_logprobs": 1},
    "prompt logprobs and stop": {"content": "count", "prompt_logprobs": 1, "stop": "3", "max_tokens": 50},
}


@pytest.fixture(scope="module", params=[{}, {**PARSERS, "answers": "repaired"}], ids=["plain", "parsed"])
def knowing(request: pytest.FixtureRequest, start: Callable[..., Setup], make_engine: Callable[..., Engine]) -> Setup:
    """A relay whose engine knows text, so that it can be asked with stop strings too; several tokens a chunk."""
    return start(make_engine(tokens_only=False, per_chunk=3), **request.param)


def step_by_step(setup: Setup, path: str, body: dict[str, Any]) -> Any:
    """What a client of render, engine and derender gets."""
    with httpx.Client(timeout=20) as client:

        def post(url: str, sent: Any) -> Any:
            answer = client.post(url, json=sent)
            assert answer.status_code == 200, answer.text
            return answer.json()

        rendered = post(f"{setup.url}{path}/render", body)
        requests = [rendered] if path == CHAT else rendered
        # The parser has to see the prompt, which one-shot derender reads in the engine's answer.
        asked = [{**one, "return_token_ids": True} for one in requests]
        generated = [post(f"{setup.engine_url}/inference/v1/generate", one) for one in asked]
        counts = [len(one["token_ids"]) for one in requests]
        if path == CHAT:
            sent = {"generate_response": generated[0], "prompt_tokens": counts[0], "chat_request": body}
        else:
            sent = {"generate_responses": generated, "prompt_tokens": counts, "completion_request": body}
        return post(f"{setup.url}{path}/derender", sent)


def same(relayed: Any, derendered: Any) -> None:
    for answer in (relayed, derendered):
        del answer["id"], answer["created"]
        # Only the relay counts reasoning tokens.
        answer["usage"].pop("completion_tokens_details")
        for choice in answer["choices"]:
            if choice["stop_reason"] is not None:
                # An engine that is stopped early does not come to say which weights it used.
                choice["weight_versions"] = None
            for call in choice.get("message", {}).get("tool_calls", ()):
                assert call.pop("id").startswith("chatcmpl-tool-")
    assert relayed == derendered


@pytest.mark.parametrize("name", CHATS)
def test_chat(knowing: Setup, name: str) -> None:
    more = dict(CHATS[name])
    body = {"model": MODEL, "messages": [{"role": "user", "content": more.pop("content")}], **more}
    if "tools" in body and not _parses(knowing):
        del body["tools"]  # this deployment has no parser for them
    answer = httpx.post(knowing.url + CHAT, json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    same(answer.json(), step_by_step(knowing, CHAT, body))


@pytest.mark.parametrize(
    "more",
    [
        {"prompt": "Hello", "max_tokens": 5},
        {"prompt": ["Hello", "count", "Hello"], "max_tokens": 9, "n": 2, "temperature": 1},
        {"prompt": [9707], "max_tokens": 5, "logprobs": 2, "return_token_ids": True},
        {"prompt": ["count", "Hello"], "stop": ["help", "4"], "max_tokens": 50},
        {"prompt": "count", "prompt_logprobs": 1, "max_tokens": 5},
    ],
)
def test_completions(knowing: Setup, more: dict[str, Any]) -> None:
    body = {"model": MODEL, **more}
    answer = httpx.post(knowing.url + COMPLETIONS, json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    same(answer.json(), step_by_step(knowing, COMPLETIONS, body))


def test_prompt_logprobs_arrive(plain: Setup) -> None:
    """A stream of the engine cannot carry them: it is asked for a whole answer."""
    answer = plain.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "count"}],
        max_tokens=20,
        stop="4",
        extra_body={"prompt_logprobs": 1},
    )
    extra: Any = answer
    assert len(extra.prompt_logprobs) == answer.usage.prompt_tokens  # type: ignore[union-attr]
    assert answer.choices[0].message.content == "1, 2, 3, "


def _parses(setup: Setup) -> bool:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "tools": [WEATHER], "max_tokens": 1}
    return httpx.post(f"{setup.url}{CHAT}/render", json=body).status_code == 200
