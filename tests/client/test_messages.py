"""Messages with the client: whole, and as events, in one call a chunk and in fewer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.client.calling import SyncCaller
from tests.client.proxy import Proxy

pytestmark = pytest.mark.xdist_group("client")

TOOL = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def ask(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "qwen3", "max_tokens": 400, "messages": [{"role": "user", "content": text}], **fields}


def blocks_of(events: list[Any]) -> list[dict[str, Any]]:
    """What Anthropic's clients make of a stream's events."""
    blocks: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"], "text_so_far": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            for name in ("text", "thinking", "partial_json"):
                blocks[event["index"]]["text_so_far"] += delta.get(name, "")
    return blocks


@pytest.mark.parametrize("gather", [1, 8])
@pytest.mark.parametrize(
    "request_body",
    [
        pytest.param(ask("hello", thinking={"type": "disabled"}), id="plain"),
        pytest.param(ask("2+2"), id="thinking"),
        pytest.param(ask("weather", tools=[TOOL]), id="tool-use"),
        pytest.param(ask("2+2", thinking={"type": "disabled"}, system="Be brief."), id="system"),
    ],
)
def test_events_say_what_the_message_says(
    open_client: type[SyncCaller], watched: Proxy, engine: str, request_body: dict[str, Any], gather: int
) -> None:
    with open_client(watched.url, engine) as client:
        message = client.ask("messages", request_body)
        watched.calls.clear()
        events = client.ask("stream_messages", request_body, gather_tokens=gather)
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == message["stop_reason"]
    assert events[-2]["usage"] == message["usage"]
    blocks = [block for block in blocks_of(events) if block["type"] != "text" or block["text_so_far"].strip()]
    assert [block["type"] for block in blocks] == [block["type"] for block in message["content"]]
    for streamed, whole in zip(blocks, message["content"], strict=True):
        if streamed["type"] == "tool_use":
            assert (streamed["name"], json.loads(streamed["text_so_far"])) == (whole["name"], whole["input"])
        else:
            assert streamed["text_so_far"] == whole[whole["type"]]
    bodies = [call.body for call in watched.calls if call.path.endswith("/derender")]
    # The request goes along once; after that the state carries it.
    assert ["messages_request" in body for body in bodies] == [True] + [False] * (len(bodies) - 1)
    sent = [len(body.get("generate_chunks", [None])) for body in bodies]
    assert max(sent) <= gather


def test_single_steps(open_client: type[SyncCaller], service: str, engine: str) -> None:
    request = ask("2+2")
    with open_client(service, engine) as client:
        rendered = client.ask("render_messages", request)
        generated = client.ask("generate", rendered)
        message = client.ask("derender_messages", request, rendered, generated)
        chunk = {"request_id": "m", "choices": generated["choices"]}
        events, state = client.ask("derender_messages_chunks", request, rendered, [chunk])
    assert message["usage"]["input_tokens"] == len(rendered["token_ids"])
    assert [event["type"] for event in events][-1] == "message_stop"
    assert state["written"]["ended"]
