"""The playground's routes, on the application of a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from core.explain.prompt import REQUEST
from handlers.server import server_app
from handlers.settings import Settings

Json = dict[str, Any]
KEY = "key-of-the-service"
OUTPUT = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call><|im_end|>'
HERMES = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}


@pytest.fixture(scope="module")
def client(models_dir: Path) -> Iterator[TestClient]:
    settings = Settings(
        model=str(models_dir / "qwen3"),
        served_model_name=("m",),
        playground=True,
        work_processes=1,
        api_key=(KEY,),
        tool_call_parser="hermes",
        enable_auto_tool_choice=True,
    )
    with TestClient(server_app(settings), headers={"authorization": f"Bearer {KEY}"}) as client:
        yield client


def explained(client: TestClient, **body: Any) -> list[Json]:
    body = {"request": REQUEST, "output": OUTPUT, "configurations": [HERMES], **body}
    answer = client.post("/playground/explain", json=body)
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["configurations"]
    return found


def test_off_by_default(models_dir: Path) -> None:
    with TestClient(server_app(Settings(model=str(models_dir / "qwen3")))) as client:
        for path in ("/playground", "/playground/page.js", "/playground/choices"):
            assert client.get(path).status_code == 404
        assert client.post("/playground/explain", json={}).status_code == 404


@pytest.mark.parametrize("name", ["", "/page.css", "/page.js"])
def test_the_page_is_its_own(client: TestClient, name: str) -> None:
    """No key for the page, nothing from elsewhere, nothing inline."""
    answer = client.get(f"/playground{name}", headers={"authorization": ""})
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    assert "style=" not in answer.text


def test_what_it_tells_needs_the_key(client: TestClient) -> None:
    bare = {"authorization": ""}
    assert client.get("/playground/choices", headers=bare).status_code == 401
    assert client.post("/playground/explain", json={}, headers=bare).status_code == 401


def test_choices(client: TestClient) -> None:
    found = client.get("/playground/choices").json()
    assert found["model"] == "m"
    assert {"hermes", "qwen3_coder", "mistral"} <= set(found["tool_call_parsers"])
    assert {"qwen3", "deepseek_r1"} <= set(found["reasoning_parsers"])
    assert found["configured"] == {"tool_call_parser": "hermes", "reasoning_parser": None}
    assert len(found["examples"]) >= 6


def test_two_configurations(client: TestClient) -> None:
    one, two = explained(client, configurations=[HERMES, {**HERMES, "tool_call_parser": "pythonic", "size": 7}])
    assert one["answer"]["whole"]["tool_calls"] == [{"name": "get_weather", "arguments": '{"city": "Paris"}'}]
    assert one["answer"]["findings"] == []
    assert two["answer"]["findings"] == ["markup"]
    assert len(one["answer"]["deltas"]) == len(one["answer"]["tokens"]) > len(two["answer"]["deltas"]) > 1
    assert one["prompt"]["count"] == two["prompt"]["count"]
    assert one["prompt"]["lost"] == []


def test_the_prompt_alone_and_ids(client: TestClient) -> None:
    (prompt,) = explained(client, output=None)
    assert set(prompt) == {"prompt"}
    (answer,) = explained(client, output=[13048, 151645])
    assert answer["answer"]["whole"] == {"reasoning": "Hi"}


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ({"tool_call_parser": "none_such"}, "none_such"),
        ({"template": "none_such"}, "no chat template 'none_such'"),
        ({"tool_call_parser": "llama3_json"}, "llama3_json"),
    ],
)
def test_a_configuration_that_cannot_be(client: TestClient, configuration: Json, reason: str) -> None:
    """The other one is explained all the same."""
    one, two = explained(client, configurations=[configuration, HERMES])
    assert reason in one["error"]
    assert two["answer"]["findings"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"request": {}, "configurations": []}',
        b'{"request": {}, "configurations": [{}, {}, {}]}',
        b'{"request": {}, "configurations": [{"size": 0}]}',
        b'{"request": {}, "configurations": [{"size": 1e400}]}',
        b'{"request": {}, "configurations": [{"tool_call_parser": 1}]}',
        b'{"request": 1, "configurations": [{}]}',
        b'{"request": {}, "output": {}, "configurations": [{}]}',
        b'{"request": {}, "more": 1, "configurations": [{}]}',
        json.dumps({"request": {}, "output": "x" * 70_000, "configurations": [{}]}).encode(),
        json.dumps({"request": {}, "output": [1] * 5_000, "configurations": [{}]}).encode(),
    ],
    ids=range(13),
)
def test_bodies_that_are_none(client: TestClient, body: bytes) -> None:
    answer = client.post("/playground/explain", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"request": {}}, "messages"),
        ({"request": {"messages": "x"}}, "messages"),
        ({"request": {"messages": [{"role": "user", "content": {"a": 1}}]}}, ""),
        ({"output": [10**9]}, "out of vocabulary"),
        ({"output": [-1]}, "out of vocabulary"),
        ({"output": ""}, "no output"),
        ({"output": "\ud800"}, ""),
        ({"output": "\x00" * 100}, None),
    ],
    ids=range(8),
)
def test_what_cannot_be_explained(client: TestClient, fields: Json, reason: str | None) -> None:
    body = json.dumps({"request": REQUEST, "output": OUTPUT, "configurations": [HERMES], **fields})
    answer = client.post("/playground/explain", content=body.encode(), headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400), answer.text
    told = answer.json()["error"]["message"] if answer.status_code == 400 else answer.json()["configurations"][0]
    if reason is not None:
        assert reason in (told if isinstance(told, str) else told["error"])
