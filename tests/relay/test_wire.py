"""The relay's streams byte for byte: the fields and their presence are those of vLLM 0.33.0's full server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from tests.relay.conftest import MODEL, PARSERS, Setup
from tests.support.streams import events_of
from tests.support.waiting import wait_for

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def stream(setup: Setup, path: str, **body: Any) -> tuple[httpx.Response, list[Any]]:
    if path == CHAT:
        body = {"messages": [{"role": "user", "content": body.pop("ask", "Hello")}], **body}
    answer = httpx.post(setup.url + path, json={"model": MODEL, "stream": True, **body}, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer, events_of(answer.text)


def test_headers(plain: Setup) -> None:
    answer, _ = stream(plain, CHAT)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert "content-length" not in answer.headers


def test_a_chat_stream(plain: Setup) -> None:
    _, (first, second, *_, last) = stream(plain, CHAT, max_tokens=3)
    common = {"id": first["id"], "object": "chat.completion.chunk", "created": first["created"], "model": MODEL}
    choice = {"index": 0, "logprobs": None, "finish_reason": None}
    assert first == {
        **common,
        "choices": [{**choice, "delta": {"role": "assistant", "content": ""}}],
        "prompt_token_ids": None,
        "prompt_text": None,
    }
    assert second == {**common, "choices": [{**choice, "delta": {"content": "Hello"}, "token_ids": None}]}
    assert last["choices"] == [
        {
            **choice,
            "delta": {"content": " How"},
            "finish_reason": "length",
            "token_ids": None,
            "stop_reason": None,
            "weight_versions": [{"version": "default", "start": 0, "end": 3}],
        }
    ]


def test_the_usage_chunk(plain: Setup, parsed: Setup) -> None:
    _, (*chunks, last) = stream(plain, CHAT, max_tokens=3, stream_options={"include_usage": True})
    assert last == {
        **{key: chunks[0][key] for key in ("id", "object", "created", "model")},
        "choices": [],
        "usage": {"prompt_tokens": 9, "total_tokens": 12, "completion_tokens": 3},
    }
    assert not any("usage" in chunk for chunk in chunks)
    _, (*_, last) = stream(parsed, CHAT, max_tokens=3, stream_options={"include_usage": True})
    assert last["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3}


def test_token_ids_and_the_prompts(plain: Setup) -> None:
    _, (first, *rest) = stream(plain, CHAT, max_tokens=3, return_token_ids=True)
    assert len(first["prompt_token_ids"]) == 9
    assert [chunk["choices"][0]["token_ids"] for chunk in rest] == [[9707], [0], [2585]]


def test_a_completions_stream(plain: Setup) -> None:
    _, (first, *_, last) = stream(plain, COMPLETIONS, prompt="Hello", max_tokens=2)
    assert first == {
        "id": first["id"],
        "object": "text_completion",
        "created": first["created"],
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "text": "Hello",
                "logprobs": None,
                "finish_reason": None,
                "stop_reason": None,
                "prompt_token_ids": None,
                "token_ids": None,
                "weight_versions": None,
            }
        ],
    }
    assert last["choices"][0]["finish_reason"] == "length"
    _, (*_, last) = stream(plain, COMPLETIONS, prompt="Hello", max_tokens=2, stream_options={"include_usage": True})
    assert (last["object"], last["choices"]) == ("text_completion", [])
    assert last["usage"] == {"prompt_tokens": 1, "total_tokens": 3, "completion_tokens": 2}


def test_hidden_reasoning_stays_hidden(parsed: Setup) -> None:
    options = {"include_reasoning": False, "logprobs": True, "top_logprobs": 1, "return_token_ids": True}
    answer, chunks = stream(parsed, CHAT, ask="Why is the sky blue?", **options)
    assert "The user asks" not in answer.text
    assert not any(chunk["choices"][0]["logprobs"] or chunk["choices"][0].get("token_ids") for chunk in chunks)


def test_an_error_in_a_stream_is_an_event_and_then_the_end(plain: Setup) -> None:
    answer, _ = stream(plain, CHAT, ask="reports an error later")
    *_, error, done, nothing = answer.text.split("\n\n")
    assert error == (
        'data: {"error":{"message":"the engine failed (500)","type":"BadGatewayError","param":null,"code":502}}'
    )
    assert (done, nothing) == ("data: [DONE]", "")


def test_an_echo_in_a_chat(plain: Setup) -> None:
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Well, "}]
    body = {
        "model": MODEL,
        "messages": messages,
        "echo": True,
        "add_generation_prompt": False,
        "continue_final_message": True,
        "max_tokens": 2,
    }
    whole = httpx.post(plain.url + CHAT, json=body, timeout=20).json()
    content = whole["choices"][0]["message"]["content"]
    assert content.startswith("Well, ")
    events = events_of(httpx.post(plain.url + CHAT, json={**body, "stream": True}, timeout=20).text)
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events) == content


def test_ids_follow_the_request(plain: Setup) -> None:
    body = {"model": MODEL, "prompt": ["Hello", "count"], "max_tokens": 1}
    headers = {"x-request-id": "mine"}
    assert httpx.post(plain.url + COMPLETIONS, json=body, headers=headers).json()["id"] == "cmpl-mine"
    assert httpx.post(plain.url + COMPLETIONS, json={**body, "request_id": "own"}).json()["id"] == "cmpl-own"
    engine_ids = [seen["request_id"] for seen in list(plain.engine.seen)[-4:]]
    assert len(set(engine_ids)) == 4
    assert not any("mine" in one or "own" in one for one in engine_ids), "an engine writes it into its log"


def test_what_goes_to_the_engine(start: Callable[..., Setup]) -> None:
    setup = start(**PARSERS)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    stream(setup, CHAT, tools=[tool], stop=["x"], stream_options={"include_usage": True})
    sent = setup.engine.seen[-1]
    assert sent["sampling_params"]["stop"] == []
    assert sent["stream_options"] == {"include_usage": True}
    assert sent["stream"] is True
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
    assert httpx.post(setup.url + CHAT, json=body).status_code == 200
    assert setup.engine.seen[-1]["stream"] is True, "its silence can be noticed"
    assert httpx.post(setup.url + CHAT, json={**body, "prompt_logprobs": 0}).status_code == 200
    assert setup.engine.seen[-1]["stream"] is False, "a stream could not carry them"


def test_the_line_in_the_log(start: Callable[..., Setup], capsys: Any) -> None:
    import json

    setup = start(request_log="all")
    for ask in ("count", "breaks later"):
        httpx.post(
            setup.url + CHAT,
            json={"model": MODEL, "messages": [{"role": "user", "content": ask}], "stream": True, "max_tokens": 20},
        )
    lines: list[dict[str, Any]] = []

    def both_are_written() -> bool:
        written = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
        lines.extend(line for line in written if line.get("message") == "request" and line["endpoint"] == CHAT)
        return len(lines) >= 2

    assert wait_for(both_are_written)
    good, bad = lines
    assert (good["status"], good["completion_tokens"], good["chunks"]) == (200, 20, 20)
    assert (bad["status"], bad["faults"]) == (502, 1)
