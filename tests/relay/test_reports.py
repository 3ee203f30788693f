"""Public reports of the second round about the relay's wire. docs/reports.md has the list."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from core.tokenizer import Tokenizer
from tests.relay.conftest import PARSERS
from tests.relay.test_odd_engines import DONE, FIRST, IDS, LAST, ask, chunk, engine
from tests.support.serving import serving
from tests.support.streams import events_of

WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL = 'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>'
DETAILS = {"prompt_tokens_details": {"cached_tokens": 8}}
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, **DETAILS}


def usage_chunk(**usage: Any) -> bytes:
    return b"data: " + json.dumps({"request_id": "x", "choices": [], "usage": usage}).encode() + b"\n\n"


def test_i40_an_end_without_a_finish_reason(make_relay: Callable[..., Any]) -> None:
    content = FIRST + chunk(token_ids=IDS[2:]) + usage_chunk(**USAGE) + DONE
    with serving(engine(content)) as odd, serving(make_relay(odd)) as url:
        assert ask(url, stream=False).status_code == 502
        streamed = ask(url, stream=True)
        assert events_of(streamed.text)[-1]["error"]["code"] == 502
        assert streamed.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [False, True])
def test_i42_a_failure_before_the_first_token(make_relay: Callable[..., Any], stream: bool) -> None:
    with serving(engine(chunk(finish_reason="error") + DONE)) as odd, serving(make_relay(odd)) as url:
        answer = ask(url, stream)
        assert (answer.status_code, answer.json()["error"]["message"]) == (502, "the engine failed while it generated")


def test_i45_a_last_chunk_with_log_probabilities(make_relay: Callable[..., Any]) -> None:
    logprobs = {"content": [{"token_id": IDS[2], "logprob": -0.5, "rank": 1, "top_logprobs": []}]}
    content = FIRST + chunk(token_ids=IDS[2:], finish_reason="stop", logprobs=logprobs) + DONE
    with serving(engine(content)) as odd, serving(make_relay(odd)) as url:
        last = events_of(ask(url, stream=True, logprobs=True).text)[-1]["choices"][0]
    assert (last["finish_reason"], last["delta"]["content"]) == ("stop", " world")
    assert [one["token"] for one in last["logprobs"]["content"]] == [" world"]


@pytest.mark.parametrize("answers", ["vllm", "repaired"])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_i48_every_id_once(make_relay: Callable[..., Any], tokenizer: Tokenizer, size: int, answers: str) -> None:
    ids = tokenizer.encode(CALL, add_special_tokens=False)
    parts = [ids[place : place + size] for place in range(0, len(ids), size)]
    content = b"".join(chunk(token_ids=part) for part in parts[:-1])
    content += chunk(token_ids=parts[-1], finish_reason="stop") + DONE
    asked = {"return_token_ids": True, "tools": [WEATHER], "chat_template_kwargs": {"enable_thinking": False}}
    with serving(engine(content)) as odd, serving(make_relay(odd, answers=answers, **PARSERS)) as url:
        events = events_of(ask(url, stream=True, **{**asked, "max_tokens": 99}).text)
    shown = [one for event in events for choice in event["choices"] for one in choice.get("token_ids") or []]
    assert shown == ids
    assert events[0]["prompt_token_ids"]
    assert not any(event.get("prompt_token_ids") for event in events[1:])


@pytest.mark.parametrize("stream", [False, True])
def test_i51_cached_tokens(make_relay: Callable[..., Any], stream: bool) -> None:
    content = FIRST + LAST + usage_chunk(**USAGE) + DONE
    more = {"stream_options": {"include_usage": True}} if stream else {}
    with serving(engine(content)) as odd, serving(make_relay(odd)) as url:
        answer = ask(url, stream, **more)
        usage = events_of(answer.text)[-1]["usage"] if stream else answer.json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 8
