"""Bodies in the forms that JSON may have, and where a body must not be read."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from handlers.server import server_app
from handlers.settings import Settings
from tests.support.serving import serving
from tests.support.waiting import PATIENCE

BODY = {"model": "qwen3", "prompt": "Grüße, 漢字"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
HTTP = httpx.Client(timeout=PATIENCE)
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service(models_dir: Path) -> Iterator[str]:
    with serving(server_app(Settings(model=str(models_dir / "qwen3"), served_model_name=("qwen3",)))) as url:
        yield url


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_every_encoding_of_json(service: str, encoding: str) -> None:
    content = json.dumps(BODY, ensure_ascii=False).encode(encoding)
    answer = HTTP.post(f"{service}/tokenize", content=content, headers=JSON)
    assert answer.status_code == 200, answer.text
    assert answer.json() == HTTP.post(f"{service}/tokenize", json=BODY).json()


@pytest.mark.parametrize("content", [b"\xff\xfe{\xd8", b"\xef\xbb\xbf{\xff", b"\0{", b"{\0\0\0\0\xff\xff\xff"])
def test_what_is_in_no_encoding_is_no_json(service: str, content: bytes) -> None:
    answer = HTTP.post(f"{service}/tokenize", content=content, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "Bad Request")


def test_two_ends_of_a_body_are_refused(service: str) -> None:
    """The next request of the connection may begin behind either."""
    body = json.dumps(BODY).encode()
    chunked = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    head = (
        "POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"content-length: {len(chunked)}\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    parts = urlsplit(service)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as connection:
        connection.sendall(head.encode() + chunked)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"not both" in answer


def test_half_a_character_is_refused_on_the_way_in(service: str) -> None:
    """vLLM takes it, and fails later or answers with it."""
    content = rb'{"model": "qwen3", "prompt": "\ud800"}'
    answer = HTTP.post(f"{service}/tokenize", content=content, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "Bad Request")


def test_half_a_character_in_arguments_goes_out_as_an_escape(models_dir: Path) -> None:
    """vLLM answers a 400: its encoder fails."""
    parsers = {"tool_call_parser": "hermes", "enable_auto_tool_choice": True}
    settings = Settings(model=str(models_dir / "qwen3"), served_model_name=("qwen3",), **parsers)  # type: ignore[arg-type]
    text = '<tool_call>\n{"name": "f", "arguments": {"a": "\\ud800"}}\n</tool_call>'
    with serving(server_app(settings)) as url:
        ids = HTTP.post(f"{url}/tokenize", json={"prompt": text}).json()["tokens"]
        answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids}]}
        request = {"messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}
        body = {"generate_response": answer, "chat_request": request}
        derendered = HTTP.post(f"{url}/v1/chat/completions/derender", json=body)
    assert derendered.status_code == 200, derendered.text
    (call,) = derendered.json()["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"a": "\ud800"}


def test_paths_that_nobody_serves(service: str) -> None:
    """As vLLM's server answers them."""
    answer = HTTP.post(f"{service}/v1/nonesuch", json={})
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


@pytest.mark.parametrize("key", [(), ("secret",)])
def test_a_path_of_a_gateway_before_the_paths(models_dir: Path, key: tuple[str, ...]) -> None:
    settings = Settings(
        model=str(models_dir / "qwen3"), served_model_name=("qwen3",), root_path="/prod/llm", api_key=key
    )
    headers = {"authorization": f"Bearer {key[0]}"} if key else {}
    with serving(server_app(settings)) as url:
        for prefix in ("/prod/llm", ""):
            assert HTTP.get(f"{url}{prefix}/health").status_code == 200
            answer = HTTP.post(f"{url}{prefix}/tokenize", json=BODY, headers=headers)
            assert answer.status_code == 200
            if key:
                assert HTTP.post(f"{url}{prefix}/tokenize", json=BODY).status_code == 401
        assert HTTP.get(f"{url}/prod/llmx/health", headers=headers).status_code == 404
