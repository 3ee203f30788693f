"""Responses with the client: whole, and as events, in one call a chunk and in fewer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.calling import SyncCaller
from tests.client.proxy import Proxy

pytestmark = pytest.mark.xdist_group("client")

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {}}}}
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


def ask(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "qwen3", "max_output_tokens": 400, "input": text, **fields}


def said(response: Any) -> list[tuple[str, str]]:
    """The types of a response's items and what they say."""
    return [(item["type"], item.get("arguments") or item["content"][0]["text"]) for item in response["output"]]


@pytest.mark.parametrize("gather", [1, 8])
@pytest.mark.parametrize(
    "request_body",
    [
        pytest.param(ask("hello", **NO_THINKING), id="plain"),
        pytest.param(ask("2+2"), id="reasoning"),
        pytest.param(ask("weather", tools=[TOOL]), id="call"),
        pytest.param(ask("2+2", **NO_THINKING, instructions="Be brief."), id="instructions"),
    ],
)
def test_events_say_what_the_response_says(
    open_client: type[SyncCaller], watched: Proxy, engine: str, request_body: dict[str, Any], gather: int
) -> None:
    with open_client(watched.url, engine) as client:
        response = client.ask("responses", request_body)
        watched.calls.clear()
        events = client.ask("stream_responses", request_body, gather_tokens=gather)
    assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    final = events[-1]["response"]
    assert final["usage"] == response["usage"]
    shown = [(kind, text) for kind, text in said(final) if text.strip()]
    assert shown == said(response)
    for item in final["output"]:
        deltas = [event["delta"] for event in events if event.get("item_id") == item["id"] and "delta" in event]
        assert "".join(deltas) == dict(said({"output": [item]}))[item["type"]]
    bodies = [call.body for call in watched.calls if call.path.endswith("/derender")]
    # The request goes along once; after that the state carries it.
    assert ["responses_request" in body for body in bodies] == [True] + [False] * (len(bodies) - 1)
    assert max(len(body.get("generate_chunks", [None])) for body in bodies) <= gather


def test_single_steps(open_client: type[SyncCaller], service: str, engine: str) -> None:
    request = ask("2+2")
    with open_client(service, engine) as client:
        rendered = client.ask("render_responses", request)
        generated = client.ask("generate", rendered)
        response = client.ask("derender_responses", request, rendered, generated)
        chunk = {"request_id": "resp_1", "choices": generated["choices"]}
        events, state = client.ask("derender_responses_chunks", request, rendered, [chunk])
    assert response["usage"]["input_tokens"] == len(rendered["token_ids"])
    assert events[-1]["type"] == "response.completed"
    assert state["written"]["ended"]
