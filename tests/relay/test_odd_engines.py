"""Engines that keep to their protocol only nearly: what is complete is answered, what they say of themselves passed on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from handlers.engine_version import check_engines
from handlers.settings import Settings
from tests.engine.generation import Engine
from tests.engine.server import create_app as create_engine_app
from tests.relay.conftest import MODEL
from tests.support.serving import free_address, serving
from tests.support.streams import events_of
from tests.support.waiting import PATIENCE

PATH = "/v1/chat/completions"
IDS = [9707, 11, 1879]  # "Hello, world"


def chunk(**choice: Any) -> bytes:
    choices = [{"index": 0, "logprobs": None, "finish_reason": None, "token_ids": [], **choice}]
    return b"data: " + json.dumps({"request_id": "generate-tokens-x", "choices": choices}).encode() + b"\n\n"


FIRST, LAST = chunk(token_ids=IDS[:2]), chunk(token_ids=IDS[2:], finish_reason="length")
DONE = b"data: [DONE]\n\n"


def engine(content: bytes, status: int = 200, **headers: str) -> Any:
    """An engine that answers everything with these bytes."""
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": content})

    return app


def ask(url: str, stream: bool, **more: Any) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, "stream": stream, **more}
    return httpx.post(url + PATH, json=body, timeout=PATIENCE)


@pytest.mark.parametrize(
    "content",
    [
        FIRST + LAST + DONE,
        FIRST + LAST,
        FIRST + LAST.rstrip(b"\n"),
        FIRST + LAST + DONE.rstrip(b"\n"),
        b"\xef\xbb\xbf" + FIRST + LAST + DONE,
    ],
    ids=["as it should be", "no DONE", "no last line end", "no line end after DONE", "a byte order mark"],
)
def test_a_complete_answer_is_one(make_relay: Callable[..., Any], content: bytes) -> None:
    with serving(engine(content)) as odd, serving(make_relay(odd)) as url:
        whole = ask(url, stream=False)
        assert whole.status_code == 200, whole.text
        (choice,) = whole.json()["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello, world", "length")
        streamed = ask(url, stream=True)
        chunks = [event["choices"][0] for event in events_of(streamed.text)]
        assert "".join(one["delta"].get("content") or "" for one in chunks) == "Hello, world"
        assert chunks[-1]["finish_reason"] == "length"
        assert streamed.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("content", [FIRST, FIRST + LAST[:40], b""], ids=["one chunk", "half a chunk", "nothing"])
def test_an_answer_that_is_not_complete_is_none(make_relay: Callable[..., Any], content: bytes) -> None:
    with serving(engine(content)) as odd, serving(make_relay(odd)) as url:
        refused = ask(url, stream=False)
        assert (refused.status_code, refused.json()["error"]["type"]) == (502, "BadGatewayError")
        assert "ended too early" in refused.json()["error"]["message"]


def test_all_choices_have_to_be_complete(make_relay: Callable[..., Any]) -> None:
    other = chunk(index=1, token_ids=IDS, finish_reason="length")
    with serving(engine(FIRST + LAST)) as odd, serving(make_relay(odd)) as url:
        assert ask(url, stream=False, n=2).status_code == 502
    with serving(engine(FIRST + other + LAST)) as odd, serving(make_relay(odd)) as url:
        assert [one["index"] for one in ask(url, stream=False, n=2).json()["choices"]] == [0, 1]


@pytest.mark.parametrize(("status", "given", "told"), [(429, "17", "17"), (429, "soon", "1"), (400, "17", None)])
def test_when_to_come_again_is_passed_on(
    make_relay: Callable[..., Any], status: int, given: str, told: str | None
) -> None:
    with serving(engine(b"{}", status, retry_after=given)) as odd, serving(make_relay(odd)) as url:
        for stream in (False, True):
            refused = ask(url, stream)
            assert refused.status_code == status
            assert refused.headers.get("retry-after") == told


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_the_engine_gives_up_is_no_answer(make_relay: Callable[..., Any], stream: bool) -> None:
    content = FIRST + chunk(finish_reason="abort") + DONE
    with serving(engine(content)) as odd, serving(make_relay(odd)) as url:
        answer = ask(url, stream)
        begun = answer.status_code == 200
        assert stream or not begun
        error = events_of(answer.text)[-1]["error"] if begun else answer.json()["error"]
        assert (error["code"], error["message"]) == (502, "the engine gave the request up")
        assert "abort" not in answer.text.replace("abort_requests", "")


def test_of_a_dead_and_a_silent_engine_the_silent_one_is_told_of(
    make_engine: Callable[..., Engine], make_relay: Callable[..., Any]
) -> None:
    rules = {"rules": [{"match": "", "answer": "x", "fault": {"kind": "slow", "seconds": 30}}]}
    with serving(create_engine_app(make_engine(rules))) as silent:
        for engines in ((free_address(), silent), (silent, free_address())):
            with serving(make_relay(*engines, engine_timeout=0.5)) as url:
                assert ask(url, stream=False).status_code == 504


def test_an_engine_that_does_not_answer_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(model="m", engine_url=(free_address(),))
    import handlers.engine_version as versions

    assert versions._complaints(settings) == ["engine 1 does not answer: make sure of its address, and that it runs"]
    check_engines(settings)  # warns, and does not raise
