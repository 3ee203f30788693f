"""The handlers in process: bodies, API Gateway events of both versions, errors, bounds."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mangum import Mangum

from core.upstream.version import slice_version, vllm_version
from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.server import server_app
from handlers.settings import Settings
from tests.support.gateway import V1, V2, event

CHAT = "/v1/chat/completions/derender"
COMPLETIONS = "/v1/completions/derender"
ONE = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707, 1879], "finish_reason": "stop"}]}
Invoke = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def handler(models_dir: Path) -> Any:
    settings = Settings(model=str(models_dir / "qwen3"), served_model_name=("qwen3",), max_body_bytes=32 * 1024 * 1024)
    return Mangum(create_app(settings, DERENDER), lifespan="off")


@pytest.fixture(params=[V1, V2], ids=["v1", "v2"])
def invoke(handler: Any, request: pytest.FixtureRequest) -> Invoke:
    def call(
        path: str,
        body: Any = None,
        *,
        method: str = "POST",
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        sent = event(path, body, method=method, headers=headers, version=request.param)
        answer: dict[str, Any] = handler(sent, None)
        answer["json"] = json.loads(answer["body"]) if answer["body"] else None
        return answer

    return call


def test_chat(invoke: Invoke) -> None:
    answer = invoke(CHAT, {"generate_response": ONE, "prompt_tokens": 3})
    assert answer["statusCode"] == 200
    assert answer["json"]["choices"][0]["message"]["content"] == "Hello world"
    assert answer["json"]["usage"]["total_tokens"] == 5


def test_base64_and_gzip_bodies(invoke: Invoke) -> None:
    raw = json.dumps({"generate_responses": [ONE]}).encode()
    plain = invoke(COMPLETIONS, raw)
    zipped = invoke(COMPLETIONS, gzip.compress(raw), headers={"content-encoding": "gzip"})
    assert plain["json"]["choices"] == zipped["json"]["choices"]
    assert plain["json"]["choices"][0]["text"] == "Hello world"


def test_service_endpoints(invoke: Invoke) -> None:
    assert invoke("/health", method="GET")["statusCode"] == 200
    assert invoke("/ping", method="GET")["statusCode"] == 200
    assert invoke("/version", method="GET")["json"] == {
        "version": vllm_version(),
        "slice": slice_version(),
    }
    assert invoke("/v1/models", method="GET")["json"]["data"][0]["id"] == "qwen3"
    assert invoke("/detokenize", {"tokens": [9707, 1879]})["json"] == {"prompt": "Hello world"}
    assert invoke("/nowhere", {})["statusCode"] == 404


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        ("{", {}, 400, "JSON decode error"),
        ("", {}, 400, "Field required"),
        ("null", {}, 400, "Field required"),
        ("[" * 5000 + "]" * 5000, {}, 400, "recursion limit"),
        ('{"generate_response": ' + '{"a":' * 3000 + "1" + "}" * 3001, {}, 400, "recursion limit"),
        (json.dumps({"generate_response": ONE}), {"content-type": "text/plain"}, 400, "Unsupported Media Type"),
        (json.dumps({"generate_response": ONE}), {"content-encoding": "br"}, 400, "Content-Encoding"),
        ('{"generate_response": {"choices": [], "kv_transfer_params": {"a": NaN}}}', {}, 400, "Out of range float"),
        ('{"generate_response": {"choices": [], "kv_transfer_params": {"a": -Infinity}}}', {}, 400, "Out of range float"),
        (json.dumps({"generate_response": ONE, "stream": "true"}), {}, 400, "Input should be"),
        (json.dumps({"generate_response": ONE, "stream": None}), {}, 400, "Input should be"),
        (json.dumps({"generate_response": {**ONE, "output_mode": "text"}}), {}, 400, "tokens"),
        (json.dumps({"generate_response": ONE, "model": "other"}), {}, 404, "does not exist"),
    ],
)  # fmt: skip
def test_bad_input_is_answered_in_the_error_shape(
    invoke: Invoke, body: str, headers: dict[str, str], status: int, words: str
) -> None:
    answer = invoke(CHAT, body, headers=headers)
    assert answer["statusCode"] == status
    error = answer["json"]["error"]
    assert words in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == status


def test_the_words_nan_and_infinity_may_stand_in_text(invoke: Invoke) -> None:
    request = {"model": "qwen3", "messages": [{"role": "user", "content": "NaN, Infinity"}]}
    assert invoke(CHAT, {"generate_response": ONE, "chat_request": request})["statusCode"] == 200


def test_numbers_too_large_for_64_bits_come_back_whole(invoke: Invoke) -> None:
    answer = invoke(CHAT, {"generate_response": {**ONE, "kv_transfer_params": {"n": 2**90}}, "prompt_tokens": 2**64})
    assert answer["json"]["kv_transfer_params"] == {"n": 2**90}
    assert answer["json"]["usage"]["total_tokens"] == 2**64 + 2


def test_a_gzip_bomb_is_refused_without_being_expanded(invoke: Invoke) -> None:
    bomb = gzip.compress(b" " * (200 * 1024 * 1024), 9)
    began = time.process_time()
    answer = invoke(CHAT, bomb, headers={"content-encoding": "gzip"})
    assert answer["statusCode"] == 413
    assert time.process_time() - began < 5  # seconds of CPU


_GZIP = gzip.compress(b"{}", mtime=0)


@pytest.mark.parametrize(
    "damage", [b"", b"x", _GZIP[:-4], _GZIP + b"x", _GZIP * 2], ids=["empty", "no-gzip", "cut", "more", "twice"]
)
def test_damaged_gzip_is_said_so(invoke: Invoke, damage: bytes) -> None:
    answer = invoke(CHAT, damage, headers={"content-encoding": "gzip"})
    assert answer["statusCode"] == 400


def test_a_million_logprob_entries_are_refused_within_seconds(handler: Any) -> None:
    entry = '{"token_id":1,"logprob":-1}'
    body = (
        '{"generate_response":{"choices":[{"index":0,"token_ids":[1],"logprobs":{"content":['
        + ",".join([entry] * 1_000_000)
        + "]}}]}}"
    )
    began = time.process_time()
    answer = handler(event(CHAT, body), None)
    assert answer["statusCode"] == 400
    assert "logprobs.content length (1000000)" in answer["body"]
    assert time.process_time() - began < 10  # seconds of CPU: 2 to 3 on a quiet machine


def test_an_oversize_body_is_a_413(handler: Any) -> None:
    body = " " * (33 * 1024 * 1024)
    answer = handler(event(CHAT, body), None)
    assert answer["statusCode"] == 413


def test_stream_ids_and_counts_must_be_possible(invoke: Invoke) -> None:
    def chunk(ids: list[int], **fields: Any) -> dict[str, Any]:
        return {
            "stream": True,
            "generate_chunk": {"request_id": "r", "choices": [{"index": 0, "token_ids": ids}]},
            **fields,
        }

    assert invoke(CHAT, chunk([9707]))["json"]["chunk"]["choices"][0]["delta"]["content"] == "Hello"
    for bad in (
        chunk([-1]),
        chunk([2**32]),
        chunk([1], prompt_tokens=-1),
        chunk([1], stream_state={"logprob_context_token_ids": [-1]}),
        chunk([1], stream_state={"prev_tokens": ["a"], "read_offset": 2}),
        chunk([1], stream_state={"prev_tokens": ["a", "b"], "prefix_offset": 2, "read_offset": 1}),
        chunk([1], stream_state={"prev_tokens": ["x" * 100_000], "read_offset": 1}),
        chunk([1], stream_state={"prev_tokens": ["a"] * 1025}),
        chunk([1], stream_state={"output_chunk_lens": [3]}),
    ):
        answer = invoke(CHAT, bad)
        assert answer["statusCode"] == 400, bad
        assert answer["json"]["error"]["message"]


def test_older_logprobs_name_the_id_in_the_token(invoke: Invoke) -> None:
    def with_logprob(entry: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "token_ids": [9707], "logprobs": {"content": [entry]}}
        return {"generate_response": {"request_id": "r", "choices": [choice]}}

    older = invoke(CHAT, with_logprob({"token": "token_id:9707", "logprob": -0.5}))
    newer = invoke(CHAT, with_logprob({"token_id": 9707, "logprob": -0.5}))
    assert older["json"]["choices"] == newer["json"]["choices"]
    assert older["json"]["choices"][0]["logprobs"]["content"][0]["token"] == "Hello"
    for bad in ("9707", "token_id:", "token_id:-1", "token_id:1e3", "token_id:²", "token_id:" + "9" * 5000):
        assert invoke(CHAT, with_logprob({"token": bad, "logprob": -0.5}))["statusCode"] == 400


def test_openapi_describes_the_bodies(models_dir: Path) -> None:
    document = server_app(Settings(model=str(models_dir / "qwen3"))).openapi()
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method == "post" and path != "/ping":
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                for part in schema.get("oneOf", [schema]):
                    assert schemas[part["$ref"].rsplit("/", 1)[1]]["properties"], path
    assert "ErrorResponse" in schemas
