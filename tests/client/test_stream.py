"""Whole streams: the same chunks as one call a chunk by hand, in fewer calls and fewer bytes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.calling import SyncCaller, normal, stream_by_hand
from tests.client.proxy import Call, Proxy, proxy
from tests.client.staged import DONE, Stage, chunk
from tests.support.streams import join

pytestmark = pytest.mark.xdist_group("client")

DERENDER = "/derender"
USAGE = {"include_usage": True}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "qwen3", "messages": [{"role": "user", "content": text}], **fields}


@pytest.mark.parametrize("gather", [1, 5])
@pytest.mark.parametrize(
    "request_body",
    [
        pytest.param(chat("hello", chat_template_kwargs={"enable_thinking": False}), id="plain"),
        pytest.param(chat("2+2", stream_options=USAGE), id="reasoning"),
        pytest.param(chat("weather", tools=TOOLS, stream_options=USAGE), id="tool-call"),
        pytest.param(chat("two", n=2, tools=TOOLS, stream_options=USAGE), id="two-choices"),
        pytest.param(chat("2+2", logprobs=True, top_logprobs=2, max_tokens=7), id="logprobs-length"),
        pytest.param(chat("hi", stream_options={**USAGE, "continuous_usage_stats": True}), id="continuous-usage"),
    ],
)
def test_chunks_are_those_of_single_calls(
    open_client: type[SyncCaller], service: str, engine: str, request_body: dict[str, Any], gather: int
) -> None:
    with open_client(service, engine) as client:
        chunks = client.ask("stream_chat", request_body, gather_tokens=gather)
    expected = stream_by_hand(service, engine, request_body)
    assert normal(chunks) == normal(expected)
    assert len(expected) > 5
    if gather == 1:
        # Nothing is held back: the choices come in the order of the engine.
        order = [[choice["index"] for choice in chunk["choices"]] for chunk in chunks]
        assert order == [[choice["index"] for choice in chunk["choices"]] for chunk in expected]


LONG = chat("long", tools=TOOLS)


@pytest.fixture(scope="module")
def a_thousand_calls(service: str, engine: str) -> tuple[list[dict[str, Any]], list[Call]]:
    """The chunks of the long stream one by one, and the derender calls that it took."""
    with proxy(service) as watched, SyncCaller(watched.url, engine) as client:
        chunks = client.ask("stream_chat", LONG)
    return normal(chunks), [call for call in watched.calls if call.path.endswith(DERENDER)]


def test_a_thousand_chunks_in_an_eighth_of_the_calls(
    open_client: type[SyncCaller], watched: Proxy, engine: str, a_thousand_calls: Any
) -> None:
    single, single_calls = a_thousand_calls
    with open_client(watched.url, engine) as client:
        whole = client.ask("chat", LONG)["choices"][0]
        watched.calls.clear()
        gathered = client.ask("stream_chat", LONG, gather_tokens=8)
        gathered_calls = [call for call in watched.calls if call.path.endswith(DERENDER)]
    assert len(single) == len(gathered) == len(single_calls) == 1000
    assert len(gathered_calls) == 125
    assert {len(call.body["generate_chunks"]) for call in gathered_calls} == {8}
    assert normal(gathered) == single
    message = join(gathered).only
    (call,) = message.calls.values()
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Zürich", "unit": "C"}')
    assert message.finish_reason == whole["finish_reason"] == "tool_calls"
    assert message.reasoning == whole["message"]["reasoning"]
    assert message.content == whole["message"]["content"]
    assert "東京 🌤 word word" in message.content
    # The request goes once, and what goes with a chunk does not grow.
    for calls in (single_calls, gathered_calls):
        assert ["chat_request" in call.body for call in calls] == [True] + [False] * (len(calls) - 1)
        assert not any("prompt_token_ids" in call.body for call in calls[1:])
    assert max(call.size for call in single_calls[1:]) < 3000


def test_the_first_stream_of_a_client_needs_no_more_calls(
    open_client: type[SyncCaller], watched: Proxy, engine: str
) -> None:
    with open_client(watched.url, engine) as client:
        chunks = client.ask("stream_chat", chat("2+2", stream_options=USAGE), gather_tokens=4)
    tokens = len(chunks) - 1
    assert watched.count(DERENDER) == -(-tokens // 4) + 1
    assert watched.bodies(DERENDER)[0]["carry_context"] is True
    assert chunks[-1]["usage"]["completion_tokens"] == tokens


def test_each_choice_has_its_own_state(open_client: type[SyncCaller], watched: Proxy, engine: str) -> None:
    with open_client(watched.url, engine) as client:
        chunks = client.ask("stream_chat", chat("two", n=2, tools=TOOLS, stream_options=USAGE), gather_tokens=3)
    choices = join(chunks).choices
    assert choices[0].content is not None
    assert choices[0].content.endswith("The first 😀 answer.")
    assert choices[1].calls[0].name == "get_weather"
    states = [body["stream_state"] for body in watched.bodies(DERENDER)]
    assert states.count(None) == 2
    assert {state["index"] for state in states if state} == {0, 1}
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == len(chunks) - 1


@pytest.mark.parametrize("gather", [1, 4])
def test_completions_of_several_prompts(open_client: type[SyncCaller], service: str, engine: str, gather: int) -> None:
    request = {
        "model": "qwen3",
        "prompt": ["Say hello", "two of the"],
        "n": 2,
        "max_tokens": 9,
        "stream_options": USAGE,
    }
    with open_client(service, engine) as client:
        whole = client.ask("completion", request)
        chunks = client.ask("stream_completion", request, gather_tokens=gather)
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {choice["index"] for chunk in chunks for choice in chunk["choices"]} == {0, 1, 2, 3}
    for choice in whole["choices"]:
        streamed = join(chunks).choices[choice["index"]]
        assert streamed.text == choice["text"] != ""
        assert streamed.finish_reason == choice["finish_reason"]
    last = chunks[-1]
    assert last["choices"] == []
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [last["usage"][name] for name in counts] == [whole["usage"][name] for name in counts]
    assert [chunk for chunk in chunks if not chunk["choices"]] == [last]


def test_tokens_of_a_batch_are_counted_not_chunks(open_client: type[SyncCaller], watched: Proxy, stage: Stage) -> None:
    ids = [9707, 11, 1879, 0]
    stage.play([chunk(ids[:3]), chunk(ids[:3]), chunk(ids[:3]), chunk(ids, "stop"), DONE])
    with open_client(watched.url, stage.url) as client:
        client.ask("stream_chat", chat("x"), gather_tokens=8)
    sizes = [
        [len(one["choices"][0]["token_ids"]) for one in body.get("generate_chunks", [body.get("generate_chunk")])]
        for body in watched.bodies(DERENDER)
    ]
    assert sizes == [[3, 3], [3, 4]]


def test_what_cannot_be_gathered(open_client: type[SyncCaller], service: str, engine: str) -> None:
    with open_client(service, engine) as client:
        for options in ({"gather_tokens": 0}, {"gather_tokens": 5000}, {"gather_ms": -1}, {"gather_ms": float("nan")}):
            with pytest.raises(ValueError, match=next(iter(options))):
                client.ask("stream_chat", chat("x"), **options)
