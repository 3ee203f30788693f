"""What the functions answer to the recorded events: by event, the function and a check of its answer.

An answer is that of a gateway (``statusCode``, ``headers``, ``body``), and has
the parsed body as ``json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def message(answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = answer["json"]["choices"][0]["message"]
    return found


def deltas(answer: dict[str, Any]) -> list[dict[str, Any]]:
    chunks = answer["json"].get("chunks") or [answer["json"]["chunk"]]
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


def is_thought_and_answer(answer: dict[str, Any]) -> None:
    assert message(answer)["reasoning"].strip() == "Two and two."
    assert message(answer)["content"].strip() == "It is 4."


def is_tool_call(answer: dict[str, Any]) -> None:
    call = message(answer)["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris"})
    assert answer["json"]["choices"][0]["finish_reason"] == "tool_calls"


def is_rendered(answer: dict[str, Any]) -> None:
    assert len(answer["json"]["token_ids"]) > 5


def is_rest_of_stream(answer: dict[str, Any]) -> None:
    assert "".join(delta.get("content") or "" for delta in deltas(answer)).strip() == "It is 4."


def is_whole_stream(answer: dict[str, Any]) -> None:
    assert "".join(delta.get("reasoning") or "" for delta in deltas(answer)).strip() == "Two and two."
    is_rest_of_stream(answer)
    assert answer["json"]["stream_state"]["context"]


def has(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def check(answer: dict[str, Any]) -> None:
        found = answer["json"]
        for step in path:
            found = found[step]
        assert found == value

    return check


def is_tool_stream(answer: dict[str, Any]) -> None:
    events = [line.removeprefix("data: ") for line in answer["body"].split("\n\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    calls = [call for chunk in chunks[:-1] for call in chunk["choices"][0]["delta"].get("tool_calls") or []]
    assert calls[0]["function"]["name"] == "get_weather"
    assert json.loads("".join(call["function"].get("arguments") or "" for call in calls)) == {"city": "Paris"}
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["completion_tokens"] > 10


def blocks(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """The types and texts of a message's blocks."""
    found: list[dict[str, Any]] = answer["json"]["content"]
    return [(block["type"], str(block.get(block["type"], "")).strip()) for block in found]


def is_message(answer: dict[str, Any]) -> None:
    assert blocks(answer) == [("thinking", "Two and two."), ("text", "It is 4.")]
    assert answer["json"]["stop_reason"] == "end_turn"


def is_relayed_message(answer: dict[str, Any]) -> None:
    assert blocks(answer)[-1] == ("text", "2 + 2 = 4.")


def is_counted(answer: dict[str, Any]) -> None:
    assert answer["json"]["input_tokens"] == answer["json"]["context_management"]["original_input_tokens"] > 5


def is_message_stream(answer: dict[str, Any]) -> None:
    events = answer["json"]["events"]
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
    assert "".join(event.get("delta", {}).get("text", "") for event in events).strip() == "It is 4."
    assert answer["json"]["stream_state"]["written"]["ended"]


def is_message_tool_stream(answer: dict[str, Any]) -> None:
    events = [json.loads(part.split("\ndata: ")[1]) for part in answer["body"].split("\n\n") if part]
    assert events[-1] == {"type": "message_stop"}
    text = "".join(event.get("delta", {}).get("partial_json", "") for event in events)
    assert json.loads(text) == {"city": "Paris"}
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def items(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """The types and texts of a response's items."""
    return [(item["type"], item["content"][0]["text"].strip()) for item in answer["json"]["output"]]


def is_response(answer: dict[str, Any]) -> None:
    assert items(answer) == [("reasoning", "Two and two."), ("message", "It is 4.")]
    assert answer["json"]["status"] == "completed"


def is_relayed_response(answer: dict[str, Any]) -> None:
    assert items(answer)[-1] == ("message", "2 + 2 = 4.")


def is_response_stream(answer: dict[str, Any]) -> None:
    events = answer["json"]["events"]
    assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    is_response({"json": events[-1]["response"]})
    assert answer["json"]["stream_state"]["written"]["ended"]


def is_response_tool_stream(answer: dict[str, Any]) -> None:
    events = [json.loads(part.split("\ndata: ")[1]) for part in answer["body"].split("\n\n") if part]
    (call,) = [item for item in events[-1]["response"]["output"] if item["type"] == "function_call"]
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris"})


EXPECTED: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "render-chat": ("render", is_rendered),
    "render-chat-tools": ("render", is_rendered),
    "render-completion": ("render", has(0, "sampling_params", "max_tokens", value=8)),
    "tokenize": ("render", has("tokens", value=[9707, 1879])),
    "tokenize-chat": ("render", has("max_model_len", value=40960)),
    "detokenize": ("derender", has("prompt", value="Hello world")),
    "derender-chat": ("derender", is_thought_and_answer),
    "derender-chat-gzip": ("derender", is_thought_and_answer),
    "derender-chat-v1": ("derender", is_thought_and_answer),
    "derender-chat-tools": ("derender", is_tool_call),
    "derender-chat-stream-first": ("derender", has("chunk", "choices", 0, "delta", "role", value="assistant")),
    "derender-chat-stream-next": ("derender", is_rest_of_stream),
    "derender-chat-stream-gathered": ("derender", is_whole_stream),
    "derender-chat-stream-usage": ("derender", has("chunk", "choices", value=[])),
    "derender-completion": ("derender", has("choices", 0, "text", value=" Paris, of course.")),
    "derender-completion-stream-first": ("derender", has("chunk", "choices", 0, "text", value=" Paris,")),
    "derender-completion-stream-next": ("derender", has("chunk", "choices", 0, "text", value=" of course.")),
    "relay-chat": ("relay", has("choices", 0, "message", "content", value="\n\n2 + 2 = 4.")),
    "relay-chat-stream": ("relay", is_tool_stream),
    "relay-completion": ("relay", has("choices", 0, "text", value="You said: The capital of France is")),
    "render-messages": ("render", is_rendered),
    "count-messages": ("render", is_counted),
    "derender-messages": ("derender", is_message),
    "derender-messages-stream": ("derender", is_message_stream),
    "relay-messages": ("relay", is_relayed_message),
    "relay-messages-stream": ("relay", is_message_tool_stream),
    "render-responses": ("render", is_rendered),
    "derender-responses": ("derender", is_response),
    "derender-responses-stream": ("derender", is_response_stream),
    "relay-responses": ("relay", is_relayed_response),
    "relay-responses-stream": ("relay", is_response_tool_stream),
    "models": ("derender", has("data", 0, "id", value="qwen3")),
    "version": ("derender", has("version", value="0.33.0")),
    "health": ("derender", lambda answer: None),
    "ping": ("derender", lambda answer: None),
    "ping-post": ("derender", lambda answer: None),
}


def is_rendered_picture(answer: dict[str, Any]) -> None:
    features = answer["json"]["features"]
    place = features["mm_placeholders"]["image"][0]
    pictured = answer["json"]["token_ids"][place["offset"] :][: place["length"]]
    assert len(pictured) == 6
    assert set(pictured) == {151655}
    assert len(features["kwargs_data"]["image"][0]) > 4 * (6 * 4 * 1176) // 3


# What is answered by a function that serves another model than the demo's: one that takes images.
WITH_IMAGES: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "render-images": ("render-images", is_rendered_picture),
}


def with_json(answer: dict[str, Any]) -> dict[str, Any]:
    """A gateway's answer with its parsed body beside it; None for a body that is empty or not JSON."""
    kinds = [str(value) for name, value in answer.get("headers", {}).items() if name.lower() == "content-type"]
    body = answer.get("body")
    return {**answer, "json": json.loads(body) if body and any("json" in kind for kind in kinds) else None}
