"""The engine's bytes into chunks, however the network cuts them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadRequest, ModelNotFound, PayloadTooLarge, RequestError, SchemaError
from core.relay import engine_events
from core.relay.engine_events import EventReader, read_chunk, read_error, read_response
from core.relay.errors import EngineFailed, EngineTimeout, EngineUnavailable, TooManyRequests
from tests.golden.corpus import engine_recordings

CHUNK = {"request_id": "r", "choices": [{"index": 0, "token_ids": [1, 2]}]}


def feed_all(reader: EventReader, blocks: list[bytes]) -> list[bytes]:
    return [data for block in blocks for data in reader.feed(block)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(
    texts=st.lists(st.text(alphabet='ab"\\ é🚀:', min_size=1, max_size=12), max_size=6),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    comments=st.booleans(),
    places=st.lists(st.integers(0, 500), max_size=12),
)
@settings(max_examples=400, deadline=None)
def test_events_come_out_however_they_are_cut(texts: list[str], end: bytes, comments: bool, places: list[int]) -> None:
    stream = b""
    for text in texts:
        if comments:
            stream += b": keep-alive" + end + end
        stream += b"data: " + json.dumps(text).encode() + end + end
    blocks = cut(stream + b"data: [DONE]" + end + end + end, places)
    assert feed_all(EventReader(), blocks) == [*(json.dumps(text).encode() for text in texts), b"[DONE]"]


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data:tight", [b"tight"]),
        (b"data:  two", [b" two"]),
        (b"data: one\ndata: two", [b"one\ntwo"]),
        (b"event: x\nid: 7\ndata: one", [b"one"]),
        (b"data: one\nretry: 5", [b"one"]),
        (b": data: comment", []),
        (b"data:", []),
        (b"nonsense", []),
    ],
)
def test_fields_of_an_event(event: bytes, data: list[bytes]) -> None:
    assert EventReader().feed(event + b"\n\n") == data


def test_an_unfinished_event_is_no_event() -> None:
    reader = EventReader()
    assert reader.feed(b"data: one\n") == []
    assert reader.feed(b"\ndata: two") == [b"one"]
    assert reader.feed(b"\n\n") == [b"two"]


def test_an_event_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_events, "MAX_EVENT_BYTES", 1000)
    for block in (b"x" * 100, b"data: x\n" * 12):
        reader = EventReader()
        with pytest.raises(EngineFailed, match="too long"):
            feed_all(reader, [block] * 20)
    reader = EventReader()
    for _ in range(20):  # each by itself is short enough
        assert reader.feed(b"data: " + b"x" * 500 + b"\n\n") == [b"x" * 500]


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    assert feed_all(EventReader(), [b"\xef\xbb", b"\xbfdata: one\n\n", b"data: two\n\n"]) == [b"one", b"two"]


class CountedBytes(bytes):
    """A block that counts the bytes that are split."""

    split_bytes = 0

    def split(self, *args: Any) -> list[bytes]:
        CountedBytes.split_bytes += len(self)
        return super().split(*args)


def test_many_lines_of_one_event_are_read_once() -> None:
    reader = EventReader()
    CountedBytes.split_bytes = 0
    for _ in range(5_000):
        assert reader.feed(CountedBytes(b"data: x\n")) == []
    assert CountedBytes.split_bytes == 8 * 5_000
    assert reader.feed(b"\n") == [b"\n".join([b"x"] * 5_000)]


def test_the_streams_of_a_real_engine() -> None:
    recorded = [recording for recording in engine_recordings() if "sse" in recording]
    assert len(recorded) >= 5
    for recording in recorded:
        for step in (1, 7, 100_000):
            data = recording["sse"].encode()
            blocks = [data[i : i + step] for i in range(0, len(data), step)]
            chunks = [read_chunk(event) for event in feed_all(EventReader(), blocks)]
            assert chunks[-1] is None
            tokens = [i for chunk in chunks[:-1] if chunk for choice in chunk.choices for i in choice.token_ids or ()]
            params = recording["request"]["sampling_params"]
            assert len(tokens) == params["max_tokens"] * params.get("n", 1)


def test_the_answers_of_a_real_engine() -> None:
    for recording in engine_recordings():
        if "body" not in recording:
            continue
        body = json.dumps(recording["body"]).encode()
        if recording["status"] == 200:
            assert read_response(body).choices
            continue
        error = read_error(recording["status"], body)
        said = recording["body"]["error"]
        if recording["status"] < 500:
            assert (error.message, error.param, error.status) == (said["message"], said["param"], said["code"])
            assert error.type == said["type"]
        else:
            assert isinstance(error, EngineFailed)
            assert said["message"] not in error.message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"not json",
        b'{"choices": 3}',
        b'{"choices": [{"token_ids": [1]}]}',
        b'{"choices": [{"index": 0, "token_ids": ["x"]}]}',
        b'{"choices": [{"index": 0, "token_ids": [1], "logprobs": {"content": [{"logprob": "x"}]}}]}',
        b'{"choices": [{"index": 0, "text": "t"}], "output_mode": "text"}',
        b'{"error": "text"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_chunk(data: bytes) -> None:
    with pytest.raises(EngineFailed):
        read_chunk(data)
    with pytest.raises(EngineFailed):
        read_response(data)


@given(data=st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_nothing_but_our_own_errors_comes_out(data: bytes) -> None:
    try:
        for event in EventReader().feed(data + b"\n\n"):
            read_chunk(event)
    except RequestError:
        pass
    assert isinstance(read_error(500, data), RequestError)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "m", "type": "BadRequestError", "param": "p", "code": 400}}, BadRequest),
        (400, {"error": {"message": "m", "type": "Bad Request", "param": "p", "code": 400}}, SchemaError),
        (404, {"error": {"message": "m", "type": "NotFoundError", "param": "model", "code": 404}}, ModelNotFound),
        (404, {"detail": "Not Found"}, EngineFailed),
        (401, {"error": "Unauthorized"}, EngineFailed),
        (403, {"error": {"message": "secret"}}, EngineFailed),
        (413, {"error": {"message": "m"}}, PayloadTooLarge),
        (422, {"detail": []}, BadRequest),
        (429, {"error": {"message": "m"}}, TooManyRequests),
        (500, {"error": {"message": "stack"}}, EngineFailed),
        (502, None, EngineFailed),
        (503, {"error": {"message": "m"}}, EngineUnavailable),
        (301, None, EngineFailed),
        (200, {"error": {"message": 5, "code": "x"}}, EngineFailed),
    ],
)
def test_what_becomes_of_an_engines_error(status: int, body: Any, kind: type[RequestError]) -> None:
    error = read_error(status, json.dumps(body).encode())
    assert type(error) is kind
    if kind in (BadRequest, SchemaError) and isinstance(body.get("error"), dict):
        assert (error.message, error.param) == ("m", "p")


@pytest.mark.parametrize(
    ("said", "seconds"), [("7", 7), (None, 1), ("0", 1), ("99999", 3600), ("9" * 400, 1), ("Tue, 1 Dec", 1), ("-1", 1)]
)
def test_an_engine_that_is_busy_says_when_and_nothing_else(said: str | None, seconds: int) -> None:
    error = read_error(429, b'{"error": {"message": "10.0.0.7:8000 is full", "param": "p"}}', said)
    assert error.retry_after == seconds
    assert "10.0" not in error.message
    assert error.param is None


def test_errors_in_a_stream() -> None:
    def error(**fields: Any) -> RequestError:
        with pytest.raises(RequestError) as caught:
            read_chunk(json.dumps({"error": {"message": "m", "type": "t", "param": None, **fields}}).encode())
        return caught.value

    assert type(error(code=400)) is BadRequest
    assert type(error(code=500)) is EngineFailed
    assert type(error()) is EngineFailed
    assert EngineTimeout("x").body()["error"]["code"] == 504
