"""The engine's wire format against recordings of a real one.

The recordings are of vLLM 0.32 started with --tokens-only.  Against 0.33.0 with a tokenizer, which the scripted
engine follows, three things differ: there are k + 1 top logprobs where the sampled token is not among the k best (0.32
cut them to k), `decoded_token` of prompt logprobs is a text (there: null, for want of a tokenizer), and an id beyond
the vocabulary is a 400 (there: the engine died).
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.engine.model import Model
from tests.golden.corpus import engine_recordings

RECORDINGS = {recording["id"]: recording for recording in engine_recordings()}
PATH = "/inference/v1/generate"


def request_of(recording: dict[str, Any]) -> dict[str, Any]:
    """The recorded request; a long list of ids is recorded as a range."""
    request: dict[str, Any] = json.loads(json.dumps(recording["request"]))
    ids = request["sampling_params"].get("stop_token_ids")
    if isinstance(ids, str):
        first, last = ids.split("..")
        request["sampling_params"]["stop_token_ids"] = list(range(int(first), int(last) + 1))
    return request


def skeleton(value: Any) -> Any:
    """Keys in their order and types; the items of a list once each."""
    if isinstance(value, dict):
        if value and all(key.isdigit() for key in value):
            return {"token id": skeleton(next(iter(value.values())))}
        return [(key, skeleton(item)) for key, item in value.items()]
    if isinstance(value, list):
        kinds: list[Any] = []
        for kind in map(skeleton, value):
            if kind not in kinds:
                kinds.append(kind)
        return kinds
    return None if value is None else type(value).__name__


def chunks_of(sse: str) -> list[Any]:
    """The JSON of a stream's events, checking the framing."""
    assert sse.endswith("data: [DONE]\n\n")
    events = sse.removesuffix("\n\n").split("\n\n")
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


def known_differences_removed(value: Any) -> Any:
    if isinstance(value, dict):
        cut = {"decoded_token": "text or null"} if "decoded_token" in value else {}
        return {key: known_differences_removed(item) for key, item in {**value, **cut}.items()}
    return [known_differences_removed(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def client(make_client: Callable[..., TestClient]) -> TestClient:
    return make_client()


@pytest.mark.parametrize("name", [name for name, one in RECORDINGS.items() if one["status"] == 200 and "body" in one])
def test_one_shot_answers_have_the_recorded_shape(name: str, client: TestClient) -> None:
    recording = RECORDINGS[name]
    answer = client.post(PATH, json=request_of(recording))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == recording["content_type"]
    body, recorded = answer.json(), recording["body"]
    assert skeleton(known_differences_removed(body)) == skeleton(known_differences_removed(recorded))
    if name != "stop_token":  # How many tokens there are depends on the model there.
        assert body["usage"] == recorded["usage"]
        for field in ("index", "finish_reason", "stop_reason", "weight_versions"):
            assert [c[field] for c in body["choices"]] == [c[field] for c in recorded["choices"]]
        assert [len(c["token_ids"]) for c in body["choices"]] == [len(c["token_ids"]) for c in recorded["choices"]]
    assert body["prompt_token_ids"] == recorded["prompt_token_ids"]
    assert body["model"] == recorded["model"]


def test_a_stop_token_is_kept_and_named(client: TestClient) -> None:
    (choice,) = client.post(PATH, json=request_of(RECORDINGS["stop_token"])).json()["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["stop_reason"] == choice["token_ids"][-1] < 150000


@pytest.mark.parametrize("name", [name for name, one in RECORDINGS.items() if "sse" in one])
def test_streams_have_the_recorded_events(name: str, client: TestClient) -> None:
    recording = RECORDINGS[name]
    answer = client.post(PATH, json=request_of(recording))
    assert answer.headers["content-type"] == recording["content_type"]
    chunks, recorded = chunks_of(answer.text), chunks_of(recording["sse"])
    assert len(chunks) == len(recorded)
    for chunk, expected in zip(chunks, recorded, strict=True):
        assert skeleton(chunk) == skeleton(expected)
        assert chunk["usage"] == expected["usage"]
        assert chunk.get("prompt_token_ids") == expected.get("prompt_token_ids")
        for choice, other in zip(chunk["choices"], expected["choices"], strict=True):
            for field in ("index", "finish_reason", "stop_reason", "weight_versions"):
                assert choice[field] == other[field]
    assert len({chunk["request_id"] for chunk in chunks}) == 1
    assert json.dumps(chunks[0], separators=(",", ":")) in answer.text  # Compact, as recorded.


@pytest.mark.parametrize("name", [name for name, one in RECORDINGS.items() if one["status"] not in (200, 500)])
def test_errors_are_the_recorded_ones(name: str, client: TestClient) -> None:
    recording = RECORDINGS[name]
    answer = client.post(PATH, json=request_of(recording))
    assert (answer.status_code, answer.json()) == (recording["status"], recording["body"])
    assert answer.headers["content-type"] == recording["content_type"]


def test_an_unknown_token_id_is_an_error_and_not_the_end(client: TestClient) -> None:
    answer = client.post(PATH, json=request_of(RECORDINGS["bad_id"]))
    assert answer.status_code == 400
    assert skeleton(answer.json()) == skeleton(RECORDINGS["bad_id"]["body"])
    assert answer.json()["error"]["message"] == "Token id 999999999 is out of vocabulary"
    assert client.post(PATH, json=request_of(RECORDINGS["plain"])).status_code == 200


@pytest.mark.parametrize("count", [0, 1, 5])
def test_logprobs_are_the_sampled_token_and_the_best(count: int, make_client: Callable[..., TestClient]) -> None:
    client = make_client("one two three four five six seven eight nine ten eleven twelve")
    request = {"token_ids": [1, 2, 3], "sampling_params": {"logprobs": count}}
    (choice,) = client.post(PATH, json=request).json()["choices"]
    content = choice["logprobs"]["content"]
    assert [entry["token_id"] for entry in content] == choice["token_ids"]
    lengths = set()
    for entry in content:
        first, *others = entry["top_logprobs"]
        assert first == {key: entry[key] for key in ("token_id", "logprob", "rank")}
        among = first["rank"] <= count
        assert len(others) == count - among
        lengths.add(len(others))
        assert sorted(one["rank"] for one in entry["top_logprobs"] if one["rank"] <= count) == list(range(1, count + 1))
        assert [one["rank"] for one in others] == sorted(one["rank"] for one in others)
        assert len({one["token_id"] for one in entry["top_logprobs"]}) == len(entry["top_logprobs"])
        assert all(one["logprob"] < 0 for one in entry["top_logprobs"])
    if count == 1:
        assert lengths == {0, 1}
    assert client.post(PATH, json=request).json()["choices"] == [choice]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_ids": [-1]}, "greater than or equal to 0"),
        ({"token_ids": "abc"}, "valid list"),
        ({"token_ids": [10**30]}, "Token id 1000000000000000000000000000000 is out of vocabulary"),
        ({"token_ids": [1] * 4096}, "requested output tokens (at least 1)"),
        ({"sampling_params": None}, "sampling_params"),
        ({"sampling_params": {"n": 0}}, "n must be at least 1, got 0."),
        ({"sampling_params": {"n": 10**6}}, "n must be at most"),
        ({"sampling_params": {"n": 2, "temperature": 0}}, "n must be 1 when using greedy sampling, got 2."),
        ({"sampling_params": {"max_tokens": 0}}, "max_tokens must be at least 1, got 0."),
        ({"sampling_params": {"max_tokens": 1, "min_tokens": 2}}, "min_tokens must be less than or equal"),
        ({"sampling_params": {"min_tokens": -1}}, "min_tokens must be greater"),
        ({"sampling_params": {"top_p": 0}}, "top_p must be in (0, 1]"),
        ({"sampling_params": {"temperature": 3}}, "temperature must be in [0, 2]"),
        ({"sampling_params": {"logprobs": 21}}, "Requested sample logprobs of 21"),
        ({"sampling_params": {"logprobs": -1}}, "greater than max allowed: 20"),
        ({"sampling_params": {"prompt_logprobs": -2}}, "prompt_logprobs must be non-negative or -1"),
        ({"sampling_params": {"stop": [""]}}, "stop cannot contain an empty string."),
        ({"sampling_params": {"stop": "x", "detokenize": False}}, "stop strings are only supported"),
        ({"output_mode": "text"}, "output_mode='tokens' only"),
        ({"content_parts": [{"type": "image_url"}]}, "a content part has a type and a url"),
        (
            {"content_parts": [{"type": "text", "url": "data:image/png;base64,YQ=="}]},
            "a content part has a type and a url",
        ),
        ({"content_parts": [{"type": "image_url", "url": "data:image/png;base64,"}]}, "holds no base64"),
        (
            {"content_parts": [{"type": "image_url", "url": "data:image/png;base64,Y!=="}]},
            "Only base64 data is allowed",
        ),
        ({"content_parts": [{"type": "image_url", "url": "data:image/png,YQ=="}]}, "holds no base64"),
        ({"content_parts": [{"type": "image_url", "url": "file:///etc/passwd"}]}, "not from 'file'"),
        ({"content_parts": [{"type": "image_url", "url": "http://a/b", "uuid": 1}]}, "uuid of a content part"),
        ({"features": {"mm_hashes": {"image": ["a"]}, "mm_placeholders": {}}}, "must use the same modalities"),
        (
            {"features": {"mm_hashes": {"image": ["a"]}, "mm_placeholders": {"image": [{"offset": 0, "length": 1}]}}},
            "kwargs_data is needed",
        ),
        ({"stream": "maybe"}, "valid boolean"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str, client: TestClient) -> None:
    answer = client.post(PATH, json={"token_ids": [1], "sampling_params": {}, **change})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert message in error["message"]
    assert error["code"] == 400


def test_images_are_taken_and_remembered(make_client: Callable[..., TestClient], model: Model) -> None:
    part = {"type": "image_url", "url": "data:image/png;base64,YQ==", "uuid": "mine"}
    request = {"token_ids": model.encode("hi"), "sampling_params": {"max_tokens": 2}, "content_parts": [part]}
    client = make_client("one two three")
    assert client.post(PATH, json=request).json()["choices"][0]["token_ids"] == model.encode("one two")
    assert make_client(tokens_only=True).post(PATH, json=request).status_code == 400


def test_bodies_that_are_not_json(client: TestClient) -> None:
    answer = client.post(PATH, content=b"{", headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "Bad Request")
    answer = client.post(PATH, content=b"{}", headers={"content-type": "text/plain"})
    assert answer.status_code == 400
    assert "Only 'application/json' is allowed" in answer.json()["error"]["message"]


def test_request_ids(client: TestClient) -> None:
    request = {"token_ids": [1], "sampling_params": {"max_tokens": 1}, "request_id": "mine"}
    assert client.post(PATH, json=request).json()["request_id"] == "generate-tokens-mine"
    answer = client.post(PATH, json=request, headers={"X-Request-Id": "other"})
    assert answer.json()["request_id"] == "generate-tokens-other"


def test_health_and_models(client: TestClient) -> None:
    health = client.get("/health")
    assert (health.status_code, health.content) == (200, b"")
    (served,) = client.get("/v1/models").json()["data"]
    assert (served["id"], served["max_model_len"]) == ("qwen3", 4096)
    assert client.get("/nothing").json() == {"detail": "Not Found"}


def test_abort_needs_ids(client: TestClient) -> None:
    for path in ("/inference/v1/abort_requests", "/abort_requests"):
        assert client.post(path, json={}).status_code == 400
        assert client.post(path, content=b"{").status_code == 400
        assert client.post(path, json={"request_ids": ["generate-tokens-unknown", 3]}).status_code == 200
