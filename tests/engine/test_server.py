"""The engine as a process: the command line, real HTTP, chunk sizes, delays and aborts."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import free_port, running
from tests.support.waiting import PATIENCE

ENGINE = Path(__file__).parents[2] / "examples" / "scripted_engine.py"


@contextmanager
def engine(*options: str) -> Iterator[int]:
    """A running engine; its port."""
    port = free_port()
    # From another folder, as a user may start it; nothing may depend on where.
    with running([sys.executable, str(ENGINE), "--port", str(port), *options], port, folder=Path(os.path.sep)):
        yield port


def post(port: int, path: str, body: Any) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    return connection.getresponse()


def events(response: http.client.HTTPResponse) -> Iterator[Any]:
    """The JSON of the events as they arrive; the last must be [DONE]."""
    assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
    ended = False
    while line := response.readline():
        assert not ended
        assert response.readline() == b"\n"
        ended = line == b"data: [DONE]\n"
        if not ended:
            yield json.loads(line.removeprefix(b"data: "))
    assert ended


@pytest.fixture(scope="module")
def slow_engine(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    script = tmp_path_factory.mktemp("script") / "script.json"
    script.write_text(json.dumps({"rules": [{"match": "", "answer": "one two three four five"}]}))
    options = ["--model", str(models_dir / "qwen3"), "--script", str(script)]
    with engine(*options, "--tokens-per-chunk", "2", "--delay-ms", "40") as port:
        yield port


def test_served_names_are_the_folder_and_its_last_part(slow_engine: int, models_dir: Path) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", slow_engine, timeout=PATIENCE)
    connection.request("GET", "/v1/models")
    served = json.loads(connection.getresponse().read())["data"]
    assert [model["id"] for model in served] == [str(models_dir / "qwen3"), "qwen3"]


def test_chunks_and_delay(slow_engine: int) -> None:
    request = {"token_ids": [1], "sampling_params": {}, "model": "qwen3", "stream": True}
    begun = time.monotonic()
    chunks = list(events(post(slow_engine, "/inference/v1/generate", request)))
    assert [len(chunk["choices"][0]["token_ids"]) for chunk in chunks] == [2, 2, 2]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    assert time.monotonic() - begun >= 3 * 0.04


def test_streamed_and_one_shot_tokens_are_the_same(slow_engine: int) -> None:
    request = {"token_ids": [1], "sampling_params": {"logprobs": 2, "max_tokens": 3}}
    body = json.loads(post(slow_engine, "/inference/v1/generate", request).read())
    chunks = list(events(post(slow_engine, "/inference/v1/generate", {**request, "stream": True})))
    (choice,) = body["choices"]
    deltas = [chunk["choices"][0] for chunk in chunks]
    assert [token for delta in deltas for token in delta["token_ids"]] == choice["token_ids"]
    assert [entry for delta in deltas for entry in delta["logprobs"]["content"]] == choice["logprobs"]["content"]
    assert deltas[-1]["weight_versions"] == choice["weight_versions"]


def test_abort_ends_a_stream(slow_engine: int) -> None:
    request: dict[str, Any] = {"token_ids": [1], "sampling_params": {"ignore_eos": True, "max_tokens": 4000}}
    request |= {"request_id": "long", "stream": True}
    last: Any = None
    for number, chunk in enumerate(events(post(slow_engine, "/inference/v1/generate", request))):
        last = chunk
        if number == 1:
            body = {"request_ids": [chunk["request_id"]]}
            assert post(slow_engine, "/inference/v1/abort_requests", body).status == 200
        assert number < 50
    assert (last["choices"][0]["finish_reason"], last["choices"][0]["token_ids"]) == ("abort", [])


def test_abort_ends_an_answer_that_is_not_streamed(slow_engine: int) -> None:
    request = {"token_ids": [1], "sampling_params": {"ignore_eos": True, "max_tokens": 4000}, "request_id": "whole"}
    got: list[Any] = []

    def target() -> None:
        got.append(json.loads(post(slow_engine, "/inference/v1/generate", request).read()))

    thread = threading.Thread(target=target)
    thread.start()
    # Asked again until it is done: the first time it may not have begun.
    until = time.monotonic() + PATIENCE
    while thread.is_alive() and time.monotonic() < until:
        thread.join(0.3)
        post(slow_engine, "/inference/v1/abort_requests", {"request_ids": ["generate-tokens-whole"]})
    (choice,) = got[0]["choices"]
    assert choice["finish_reason"] == "abort"
    assert 0 < len(choice["token_ids"]) < 4000
    assert choice["weight_versions"] == [{"version": "default", "start": 0, "end": len(choice["token_ids"])}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "no-such-folder"], "no-such-folder is not a model folder"),
        (["--script", "no-such-file.json"], "--script"),
        (["--tokens-per-chunk", "0"], "must be at least 1"),
    ],
)
def test_what_cannot_be_started(options: list[str], message: str, models_dir: Path) -> None:
    # models_dir: the default model is there already.
    done = subprocess.run(
        [sys.executable, str(ENGINE), *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
