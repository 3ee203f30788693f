"""Engines that fail, fall silent or break off: every one of them is an error that the client can see, in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from tests.engine.generation import Engine
from tests.engine.server import create_app as create_engine_app
from tests.relay.conftest import MODEL, Setup, client_of
from tests.support.serving import free_address, serving
from tests.support.streams import events_of
from tests.support.waiting import PATIENCE, wait_for

PATH = "/v1/chat/completions"


def body(question: str, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": question}], "max_tokens": 200, **more}


@pytest.fixture(scope="module")
def patient(start: Callable[..., Setup]) -> Setup:
    """A relay that waits for an engine however slow the machine is."""
    return start(engine_timeout=PATIENCE, sse_keep_alive_interval=0.1)


@pytest.fixture(scope="module")
def impatient(start: Callable[..., Setup]) -> Setup:
    """A relay that waits for no engine longer than half a second."""
    return start(engine_timeout=0.5, sse_keep_alive_interval=0.1)


@pytest.mark.parametrize(
    ("question", "status", "message"),
    [
        ("breaks at once", 502, "broke off"),
        ("breaks later", 502, "broke off"),
        ("is cut", 502, "ended too early"),
        ("reports an error at once", 502, "failed"),
        ("reports an error later", 502, "failed"),
        ("sends no json", 502, "not a chunk"),
        ("sends another shape", 502, "not a chunk"),
        ("sends a strange choice", 502, "choice 7 of 1"),
        ("sends strange ids", 502, "no vocabulary"),
        ("never ends", 502, "more than the 200 tokens"),
        ("answers 500", 502, "failed (500)"),
        ("answers 503", 503, "takes no requests"),
        ("answers 429", 429, "takes no more requests"),
        ("answers 401", 502, "key of the relay"),
        ("answers 400", 400, "the script says"),
        ("is silent", 504, "nothing for 0.5 seconds"),
        ("is silent at once", 504, "nothing for 0.5 seconds"),
    ],
)
def test_every_fault_is_an_error(patient: Setup, impatient: Setup, question: str, status: int, message: str) -> None:
    """In one piece with its status; streamed with its status where nothing was sent, else as an event."""
    setup = impatient if "silent" in question else patient
    whole = httpx.post(setup.url + PATH, json=body(question), timeout=PATIENCE)
    assert whole.status_code == status
    error = whole.json()["error"]
    assert message in error["message"]
    assert error["code"] == status
    assert set(error) == {"message", "type", "param", "code"}
    assert setup.engine_url.rsplit(":", 1)[1] not in whole.text, "an engine's address is the operator's"

    streamed = httpx.post(setup.url + PATH, json=body(question, stream=True), timeout=PATIENCE)
    if streamed.status_code == 200:
        *chunks, last = events_of(streamed.text)
        assert last == {"error": error}
        assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    else:
        assert (streamed.status_code, streamed.json()["error"]) == (status, error)
    # Nothing goes on working for nobody.
    assert wait_for(lambda: not setup.engine.running)


def test_what_was_sent_before_the_fault_arrives(patient: Setup) -> None:
    stream = patient.client.chat.completions.create(**body("breaks later"), stream=True)
    texts: list[str] = []
    with pytest.raises(openai.APIError, match="broke off"):
        texts.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "".join(texts) == "1, 2,"


def test_errors_before_the_first_token_have_their_own_status(patient: Setup) -> None:
    kinds = {
        "breaks at once": openai.InternalServerError,
        "reports an error at once": openai.InternalServerError,
        "answers 500": openai.InternalServerError,
        "answers 429": openai.RateLimitError,
        "answers 400": openai.BadRequestError,
    }
    for question, kind in kinds.items():
        with pytest.raises(kind):
            patient.client.chat.completions.create(**body(question), stream=True)


def test_a_slow_engine_is_waited_for(start: Callable[..., Setup]) -> None:
    """Comments keep the line open meanwhile, before the first token and between two."""
    setup = start(engine_timeout=PATIENCE, sse_keep_alive_interval=0.05)
    for question in ("is slow to begin", "is slow later"):
        answer = httpx.post(setup.url + PATH, json=body(question, stream=True), timeout=PATIENCE)
        assert answer.text.count(": keep-alive\n\n") >= 2, question
        chunks = events_of(answer.text)
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        assert text.startswith("1, 2, 3, 4, 5")
        # The official client does not mind.
        stream = setup.client.chat.completions.create(**body(question), stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == text


def test_no_comments_where_none_are_wanted(start: Callable[..., Setup]) -> None:
    setup = start(sse_keep_alive_interval=0)
    answer = httpx.post(setup.url + PATH, json=body("is slow later", stream=True), timeout=PATIENCE)
    assert ": keep-alive" not in answer.text
    assert len(events_of(answer.text)) > 100


def test_no_engine_is_there(make_relay: Callable[..., Any]) -> None:
    with serving(make_relay(free_address())) as url:
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError, match="cannot be reached") as refused:
                client_of(url).chat.completions.create(**body("count"), stream=stream)
            assert refused.value.status_code == 503


def test_the_next_engine_takes_over_before_the_first_token(
    make_engine: Callable[..., Engine], make_relay: Callable[..., Any]
) -> None:
    good = make_engine()
    faulty = make_engine({"rules": [{"match": "", "answer": "no", "fault": {"kind": "status", "status": 500}}]})
    for first in (None, faulty):
        first_url = serving(create_engine_app(first)) if first is not None else _nothing_there()
        with first_url as bad, serving(create_engine_app(good)) as fine, serving(make_relay(bad, fine)) as url:
            for stream in (False, True):
                answer: Any = client_of(url).chat.completions.create(**body("Hello"), stream=stream)
                parts = list(answer) if stream else [answer]
                assert parts[-1].choices[0].finish_reason == "stop"
    assert len(good.seen) == 4


def test_an_engine_that_failed_is_the_last_choice_for_a_while(
    make_engine: Callable[..., Engine], make_relay: Callable[..., Any]
) -> None:
    """Not every request pays for the dead engine."""
    with (
        _silent_port() as (bad, accepted),
        serving(create_engine_app(make_engine())) as fine,
        serving(make_relay(bad, fine, engine_timeout=3)) as url,
    ):
        began = time.monotonic()
        client_of(url).chat.completions.create(**body("Hello"))
        assert time.monotonic() - began > 3
        assert accepted[0] >= 1
        for _ in range(2):
            client_of(url).chat.completions.create(**body("Hello"))
    assert accepted[0] <= 3  # the question for its version at the start, the call and its abort


def test_no_take_over_after_the_first_token(make_engine: Callable[..., Engine], make_relay: Callable[..., Any]) -> None:
    """The second engine would say something else."""
    good = make_engine()
    with (
        serving(create_engine_app(make_engine())) as bad,
        serving(create_engine_app(good)) as fine,
        serving(make_relay(bad, fine)) as url,
        pytest.raises(openai.APIError, match="broke off"),
    ):
        list(client_of(url).chat.completions.create(**body("breaks later"), stream=True))
    assert not good.seen


def test_an_id_outside_the_vocabulary_never_reaches_the_engine(plain: Setup) -> None:
    """One would end the engine for everybody: the scripted engine dies of it as a real one does."""
    before = len(plain.engine.seen)
    beyond = plain.engine.model.vocab_size
    prompts: list[Any] = [[beyond], [1, beyond, 2], [[1], [beyond + 7]], [2**40]]
    for prompt in prompts:
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError, match="out of vocabulary"):
                plain.client.completions.create(model=MODEL, prompt=prompt, stream=stream)
    for extra in (
        {"stop_token_ids": [beyond]},
        {"stop_token_ids": [-1]},
        {"logit_bias": {str(beyond): 1}},
        {"allowed_token_ids": [beyond]},
        {"logprobs": 1, "logprob_token_ids": [beyond]},
        {"kv_transfer_params": {"prompt_token_ids": [beyond]}, "messages": []},
    ):
        is_chat = "messages" in extra
        path = PATH if is_chat else "/v1/completions"
        given = body("Hello") if is_chat else {"model": MODEL, "prompt": "Hello"}
        answer = httpx.post(plain.url + path, json={**given, **{k: v for k, v in extra.items() if k != "messages"}})
        assert answer.status_code == 400, extra
        assert "vocabulary" in answer.json()["error"]["message"]
    assert not plain.engine.is_dead
    assert len(plain.engine.seen) == before
    # The last id of the vocabulary is fine, and so is the engine.
    assert plain.client.completions.create(model=MODEL, prompt=[beyond - 1], max_tokens=1).choices


@pytest.mark.parametrize("stream", [False, True])
def test_what_json_can_carry_and_a_fast_encoder_cannot(plain: Setup, stream: bool) -> None:
    """Found by fuzzing: an integer beyond 64 bits in what goes to the engine was a 500. The engine refuses it itself."""
    request = {"model": MODEL, "prompt": ["Hello", "again"], "logprobs": 10**30, "stream": stream}
    answer = httpx.post(f"{plain.url}/v1/completions", json=request)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "BadRequestError"


def test_clients_cannot_end_each_others_requests(plain: Setup) -> None:
    """Two clients may choose the same id; the engine sees two."""
    headers = {"x-request-id": "the-same"}
    first = plain.client.chat.completions.create(
        **{**body("never ends"), "max_tokens": 30000}, stream=True, extra_headers=headers
    )
    assert next(first).id == "chatcmpl-the-same"
    second = plain.client.chat.completions.create(
        **{**body("never ends"), "max_tokens": 30000}, stream=True, extra_headers=headers
    )
    next(second)
    assert len(plain.engine.running) == 2
    second.close()
    assert wait_for(lambda: len(plain.engine.running) == 1)
    assert [next(first).choices[0].finish_reason for _ in range(200)] == [None] * 200
    first.close()
    assert wait_for(lambda: not plain.engine.running)


def test_a_client_that_does_not_read_slows_the_engine_down(
    make_engine: Callable[..., Engine], make_relay: Callable[..., Any]
) -> None:
    """Back pressure reaches the engine: it comes to a halt once the buffers between are full."""
    engine = make_engine()
    counted = [0]
    answer_of = engine.generate

    async def generate(*arguments: Any) -> Any:
        async for delta in answer_of(*arguments):
            counted[0] += len(delta.token_ids)
            yield delta

    engine.generate = generate  # type: ignore[method-assign]
    with serving(create_engine_app(engine)) as engine_url, serving(make_relay(engine_url)) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            # Log probabilities make it some 3 KB a token.
            asked = body("never ends", stream=True, logprobs=True, top_logprobs=20)
            request = httpx.Request("POST", url + PATH, json={**asked, "max_tokens": 40000})
            head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
            client.sendall(f"POST {PATH} HTTP/1.1\r\n{head}\r\n".encode() + request.content)
            halted_at = -1
            deadline = time.monotonic() + PATIENCE
            while halted_at != counted[0] or not counted[0]:
                assert time.monotonic() < deadline, "the engine never came to a halt"
                halted_at = counted[0]
                time.sleep(0.7)
            assert engine.running
            # It goes on where it stopped as soon as the client reads.
            received = 0
            while received < 64_000_000 and counted[0] == halted_at:
                received += len(client.recv(65536))
            assert wait_for(lambda: counted[0] > halted_at)
        assert wait_for(lambda: not engine.running)


@contextmanager
def _nothing_there() -> Iterator[str]:
    yield free_address()


@contextmanager
def _silent_port() -> Iterator[tuple[str, list[int]]]:
    """A port that takes connections and says nothing; its address, and how many it took."""
    accepted = [0]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        listener.settimeout(0.05)
        done = threading.Event()
        held: list[socket.socket] = []

        def accept() -> None:
            while not done.is_set():
                try:
                    held.append(listener.accept()[0])
                    accepted[0] += 1
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", accepted
        finally:
            done.set()
            thread.join()
            for connection in held:
                connection.close()
