"""Failures on the way: what is repeated, what is not, and what the caller hears."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import pytest

from derender_client import (
    ClientError,
    ConnectionFailed,
    DerenderClient,
    ErrorAnswer,
    RequestFailed,
    StreamFailed,
    UnexpectedAnswer,
)
from derender_client._effects import Finished, Reply, Sleep, advance
from derender_client._session import Session
from tests.client.calling import SyncCaller
from tests.client.proxy import Answer, Drop, Proxy
from tests.client.staged import DONE, Break, Pause, Stage, chunk, event
from tests.support.servers import free_port
from tests.support.streams import Choice, join
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.xdist_group("client")

REQUEST: dict[str, Any] = {"model": "qwen3", "messages": [{"role": "user", "content": "2+2"}]}
EXPECTED = Choice(role="assistant", reasoning="\nTwo and two.\n", content="\n\n2 + 2 = 4.", finish_reason="stop")
GENERATE = "/inference/v1/generate"
HELLO = 9707
TRANSIENT = [
    pytest.param(Drop(), id="dropped"),
    pytest.param(Drop(after_server=True), id="answer-dropped"),
    pytest.param(Drop(kept=30), id="answer-cut"),
    pytest.param(Answer(503), id="503"),
    pytest.param(Answer(502, b"<html>Bad Gateway</html>"), id="502"),
    pytest.param(Answer(504, b""), id="504"),
    pytest.param(Answer(429, headers={"retry-after": "0"}), id="429"),
]


@pytest.mark.parametrize("fault", TRANSIENT)
def test_derender_calls_are_repeated(
    open_client: type[SyncCaller], watched: Proxy, engine: str, fault: Answer | Drop
) -> None:
    watched.plan("/derender", fault, None, fault, fault)
    with open_client(watched.url, engine, backoff=0.01) as client:
        chunks = client.ask("stream_chat", REQUEST, gather_tokens=4)
    assert join(chunks).only == EXPECTED
    assert watched.count("/derender") == -(-len(chunks) // 4) + 3


@pytest.mark.parametrize("fault", TRANSIENT)
def test_render_calls_are_repeated(open_client: type[SyncCaller], watched: Proxy, fault: Answer | Drop) -> None:
    watched.plan("/render", fault, fault)
    with open_client(watched.url, backoff=0.01) as client:
        assert client.ask("render_chat", REQUEST)["token_ids"]
    assert watched.count("/render") == 3


def test_retries_are_bounded(open_client: type[SyncCaller], watched: Proxy) -> None:
    for retries, faults in ((0, 1), (2, 3)):
        watched.calls.clear()
        watched.plan("/render", *[Answer(503)] * faults)
        with (
            open_client(watched.url, backoff=0.01, max_retries=retries) as client,
            pytest.raises(RequestFailed) as info,
        ):
            client.ask("render_chat", REQUEST)
        assert info.value.status == 503
        assert watched.count("/render") == faults


def test_the_wait_that_the_server_asks_for(open_client: type[SyncCaller], watched: Proxy) -> None:
    watched.plan("/render", Answer(429, headers={"retry-after": "1"}))
    begun = time.monotonic()
    with open_client(watched.url, backoff=0.0) as client:
        client.ask("render_chat", REQUEST)
    assert time.monotonic() - begun >= 1.0


def test_between_two_attempts_lies_the_wait_that_the_server_asks_for() -> None:
    session = Session("http://there", None, backoff=0.0)
    steps = session.render_chat(REQUEST)
    first = advance(steps, None)
    assert advance(steps, Reply(429, {"retry-after": "1"}, b"")) == Sleep(1.0)
    assert advance(steps, None) == first
    assert advance(steps, Reply(200, {}, b'{"token_ids": [1]}')) == Finished({"token_ids": [1]})


def test_a_wait_that_is_too_long_is_the_callers(open_client: type[SyncCaller], watched: Proxy) -> None:
    watched.plan("/render", Answer(429, headers={"retry-after": "3600"}))
    with open_client(watched.url) as client, pytest.raises(RequestFailed) as info:
        client.ask("render_chat", REQUEST)
    assert info.value.retry_after == 3600
    assert watched.count("/render") == 1


def test_a_refused_request_is_not_repeated(open_client: type[SyncCaller], watched: Proxy) -> None:
    with open_client(watched.url) as client, pytest.raises(RequestFailed) as info:
        client.ask("render_chat", {**REQUEST, "model": "other"})
    error = info.value
    assert (error.status, error.type, error.param, error.code) == (404, "NotFoundError", "model", 404)
    assert error.message.startswith("The model `other` does not exist.")
    assert error.url.endswith("/v1/chat/completions/render")
    assert watched.count("/render") == 1


def test_a_refused_stream_is_refused_with_the_servers_words(
    open_client: type[SyncCaller], watched: Proxy, engine: str
) -> None:
    with open_client(watched.url, engine) as client, pytest.raises(RequestFailed, match="stop strings") as info:
        client.ask("stream_chat", {**REQUEST, "stop": ["never"]}, gather_tokens=4)
    assert info.value.status == 400


def test_a_refused_state_is_not_repeated(open_client: type[SyncCaller], watched: Proxy, engine: str) -> None:
    with open_client(watched.url, engine) as client:
        rendered = client.ask("render_chat", {**REQUEST, "stream": True})
        first, *rest = client.ask("generate_stream", rendered)
        state = client.ask("derender_chat_chunks", REQUEST, rendered, [first]).stream_state
        watched.calls.clear()
        with pytest.raises(RequestFailed) as info:
            client.ask("derender_chat_chunks", REQUEST, rendered, rest, {**state, "index": 1})
    assert info.value.param == "stream_state.index"
    assert watched.count("/derender") == 1


@pytest.mark.parametrize(
    ("fault", "repeated"),
    [(Drop(), True), (Answer(429), True), (Answer(503), True), (Answer(504), False), (Answer(500), False)],
    ids=["dropped", "429", "503", "504", "500"],
)
@pytest.mark.parametrize("method", ["chat", "stream_chat"])
def test_an_engine_is_asked_again_only_when_it_is_not_at_work(
    open_client: type[SyncCaller], service: str, watched_engine: Proxy, method: str, fault: Any, repeated: bool
) -> None:
    watched_engine.plan(GENERATE, fault)
    with open_client(service, watched_engine.url, backoff=0.01) as client:
        if repeated:
            assert client.ask(method, REQUEST)
        else:
            with pytest.raises(RequestFailed):
                client.ask(method, REQUEST)
    assert watched_engine.count(GENERATE) == (2 if repeated else 1)


def test_an_engine_that_is_slow_is_not_asked_again(
    open_client: type[SyncCaller], service: str, watched_engine: Proxy
) -> None:
    given_up = threading.Event()
    watched_engine.before_answer = lambda call: given_up.wait(PATIENCE)
    timeout = httpx.Timeout(PATIENCE, read=0.2)
    with (
        open_client(service, watched_engine.url, engine_timeout=timeout) as client,
        pytest.raises(ConnectionFailed, match="ReadTimeout"),
    ):
        client.ask("chat", REQUEST)
    given_up.set()
    assert watched_engine.count(GENERATE) == 1


def test_a_stream_that_broke_before_its_first_event_is_opened_again(
    open_client: type[SyncCaller], service: str, watched_engine: Proxy
) -> None:
    for options in ({}, {"gather_tokens": 4, "gather_ms": 20}):
        watched_engine.calls.clear()
        watched_engine.plan(GENERATE, Drop(kept=0), Drop(kept=5))
        with open_client(service, watched_engine.url, backoff=0.01) as client:
            assert join(client.ask("stream_chat", REQUEST, **options)).only == EXPECTED
        assert watched_engine.count(GENERATE) == 3


@pytest.mark.parametrize("options", [{}, {"gather_tokens": 9}, {"gather_tokens": 9, "gather_ms": 5000}])
@pytest.mark.parametrize(
    ("ending", "error", "text"),
    [
        ([Break()], ConnectionFailed, "RemoteProtocolError"),
        ([], ConnectionFailed, "ended in the middle"),
        ([DONE], None, ""),
        ([event({"error": {"message": "out of memory", "type": "X", "code": 500}}), DONE], StreamFailed, "of memory"),
        ([b"data: {nonsense\n\n", DONE], UnexpectedAnswer, "not JSON"),
        ([b'data: {"choices": [{"index": 0, "logprobs": NaN}]}\n\n', DONE], UnexpectedAnswer, "not JSON"),
        ([b'data: {"choices": 7}\n\n', DONE], UnexpectedAnswer, "not a chunk"),
    ],
    ids=["broken", "short", "no-finish", "error", "no-json", "nan", "no-chunk"],
)
def test_what_came_before_the_failure_is_given_out(
    open_client: type[SyncCaller],
    service: str,
    stage: Stage,
    ending: list[Any],
    error: type[ClientError] | None,
    text: str,
    options: dict[str, Any],
) -> None:
    stage.play([chunk([HELLO]), Pause(0.02), chunk([HELLO]), Pause(0.02), *ending])
    seen: list[Any] = []
    with open_client(service, stage.url, backoff=0.01) as client:
        if error is None:
            client.ask_until(seen, "stream_chat", REQUEST, **options)
        else:
            with pytest.raises(error, match=text) as info:
                client.ask_until(seen, "stream_chat", REQUEST, **options)
            if isinstance(info.value, StreamFailed):
                assert (info.value.type, info.value.code, info.value.param) == ("X", 500, None)
    assert len(seen) == 2
    # Tokens had arrived: other ones would come the second time.
    assert stage.requests == 1


def test_an_engine_without_a_done_event(open_client: type[SyncCaller], service: str, stage: Stage) -> None:
    stage.play([chunk([HELLO]), chunk([HELLO], "stop"), chunk([HELLO], "length", index=1)])
    with open_client(service, stage.url) as client:
        assert len(client.ask("stream_chat", {**REQUEST, "n": 2})) == 3
        with pytest.raises(ConnectionFailed, match="in the middle"):
            client.ask("stream_chat", {**REQUEST, "n": 3})


def test_nothing_listens(open_client: type[SyncCaller]) -> None:
    with (
        open_client(f"http://127.0.0.1:{free_port()}", backoff=0.01) as client,
        pytest.raises(ConnectionFailed, match="ConnectError") as info,
    ):
        client.ask("render_chat", REQUEST)
    assert isinstance(info.value.__cause__, httpx.ConnectError)


@pytest.mark.parametrize(
    ("path", "answer", "call"),
    [
        ("/render", b"<html>", ("render_chat", REQUEST)),
        ("/render", b"[]", ("render_chat", REQUEST)),
        ("/render", b'{"token_ids": [1]}', ("render_completion", {"model": "qwen3", "prompt": "x"})),
        ("/derender", b'{"chunk": null, "stream_state": {}}', ("stream_chat", REQUEST)),
        ("/derender", b'{"chunk": {}}', ("stream_chat", REQUEST)),
        ("/derender", b"7", ("chat", REQUEST)),
    ],
)
def test_answers_of_another_kind(
    open_client: type[SyncCaller], watched: Proxy, engine: str, path: str, answer: bytes, call: Any
) -> None:
    watched.plan(path, Answer(200, answer))
    with open_client(watched.url, engine) as client, pytest.raises(UnexpectedAnswer, match=path):
        client.ask(*call)


def test_an_engine_that_answers_something_else(
    open_client: type[SyncCaller], service: str, watched_engine: Proxy
) -> None:
    watched_engine.plan(GENERATE, Answer(200, b'{"choices": null}'))
    with open_client(service, watched_engine.url) as client, pytest.raises(UnexpectedAnswer, match="without choices"):
        client.ask("chat", REQUEST)


def test_clients_that_cannot_work() -> None:
    for url in ("localhost:8100", "ftp://localhost", "http://"):
        with pytest.raises(ValueError, match="not an http or https address"):
            DerenderClient(url)
    with pytest.raises(ValueError, match="negative"):
        DerenderClient("http://localhost", max_retries=-1)
    with DerenderClient("http://localhost") as client, pytest.raises(ValueError, match="engine_url"):
        client.chat(REQUEST)


def test_one_hierarchy() -> None:
    for error in (ConnectionFailed, UnexpectedAnswer, ErrorAnswer, RequestFailed, StreamFailed):
        assert issubclass(error, ClientError)
    assert issubclass(RequestFailed, ErrorAnswer)
    assert issubclass(StreamFailed, ErrorAnswer)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "m", "type": "t", "param": "p", "code": 3}}', "m"),
        (b'{"detail": [{"loc": ["body"]}]}', '[{"loc": ["body"]}]'),
        (b'{"message": "Forbidden"}', "Forbidden"),
        (b'{"Message": "Missing Authentication Token"}', "Missing Authentication Token"),
        (b'{"error": "text"}', "text"),
        (b"<html>no</html>", "<html>no</html>"),
        (b"", "no reason was given"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 10000, "x" * 500),
        (b"null", "null"),
    ],
)
def test_error_bodies(body: bytes, message: str) -> None:
    error = RequestFailed("http://there", 418, body)
    assert error.message == message
    assert str(error) == f"http://there answered 418: {message}"
    assert (error.type, error.param, error.code) == (("t", "p", 3) if message == "m" else (None, None, None))
