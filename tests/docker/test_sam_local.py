"""`sam local`, as deploy.md says it: every event of every function, and every route with real clients."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from infra.package.build import ROOT
from infra.package.functions import find_function
from infra.package.local import logical_id, routes
from tests.docker.conftest import ENVIRON, SAM, run
from tests.support.event_answers import EXPECTED, with_json
from tests.support.servers import free_port
from tests.support.waiting import wait_for

TEMPLATE = (ROOT / "template.yaml").read_text()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_sam_local_invoke(engine: str, name: str) -> None:
    function, check = EXPECTED[name]
    named = find_function(function)
    assert named is not None
    printed = run(
        SAM,
        "local",
        "invoke",
        logical_id(named),
        "--event",
        f"events/{name}.json",
        "--skip-pull-image",
    )
    answer = with_json(json.loads(printed.strip().splitlines()[-1]))
    assert answer.get("statusCode") == 200, answer
    check(answer)


@pytest.fixture(scope="module")
def api(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`sam local start-api`; its containers stay between requests, as on Lambda."""
    port = free_port()
    log = tmp_path_factory.mktemp("api") / "log"
    command = [str(SAM), "local", "start-api", "--skip-pull-image", "--warm-containers", "EAGER", "--port", str(port)]
    with log.open("w") as written:
        process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRON, stdout=written, stderr=written, start_new_session=True
        )
    try:
        assert wait_for(lambda: "Running on" in log.read_text() or process.poll() is not None, 300), log.read_text()
        assert process.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(120)


def test_every_route_answers(api: str) -> None:
    listed = [route for paths in routes(TEMPLATE).values() for route in paths]
    assert len(listed) >= 11
    for method, path in listed:
        response = httpx.request(method, api + path, json={} if method == "POST" else None, timeout=120)
        # An empty body is refused by the function in the error shape; without a route it is SAM's own "Missing ...".
        expected = 200 if method == "GET" or path == "/ping" else 400
        assert response.status_code == expected, f"{method} {path}: {response.text}"
        if expected == 400:
            assert response.json()["error"]["message"], path


def test_a_round_trip_with_httpx(api: str, engine: str) -> None:
    chat = {"model": "qwen3", "messages": [{"role": "user", "content": "What is 2+2?"}], "max_tokens": 32}
    with httpx.Client(timeout=120) as client:
        rendered = client.post(f"{api}/v1/chat/completions/render", json=chat).json()
        generated = client.post("http://127.0.0.1:8200/inference/v1/generate", json=rendered).json()
        body = {"generate_response": generated, "prompt_tokens": len(rendered["token_ids"]), "chat_request": chat}
        response = client.post(f"{api}/v1/chat/completions/derender", json=body)
    assert response.status_code == 200, response.text
    message = response.json()["choices"][0]["message"]
    assert message["content"].strip() == "2 + 2 = 4."
    assert message["reasoning"].strip() == "Two and two."


def test_a_round_trip_with_openais_client(api: str) -> None:
    client = openai.OpenAI(base_url=f"{api}/v1", api_key="none", timeout=120)
    assert [model.id for model in client.models.list()] == ["qwen3"]
    answer = client.chat.completions.create(model="qwen3", messages=[{"role": "user", "content": "What is 2+2?"}])
    assert (answer.choices[0].message.content or "").strip() == "2 + 2 = 4."
    streamed = client.chat.completions.create(
        model="qwen3", messages=[{"role": "user", "content": "What is 2+2?"}], stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed if chunk.choices).strip() == "2 + 2 = 4."


def test_the_settings_are_in_the_template_that_make_package_writes(target: object) -> None:
    written = (ROOT / "dist" / "local.yaml").read_text()
    assert written.count("DERENDER_TOOL_CALL_PARSER: hermes") == 3
    assert Path("dist/local.yaml").name in (ROOT / "samconfig.toml").read_text()
