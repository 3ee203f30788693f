"""The relay's artefact as its function runs it: its own script, a server, a stream that is seen as it comes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from infra.emulator import Emulator, InvokeError, Runtime
from infra.emulator.process import server_environment
from infra.package.build import Artefact
from infra.package.target import Target
from tests.support.faulty_s3 import CREDENTIALS, faulty_s3
from tests.support.gateway import recorded_event
from tests.support.servers import free_port, running

Start = Callable[..., Emulator]
BuildOf = Callable[[str, Target], Artefact]


@pytest.fixture(scope="module")
def server(
    runtime: Runtime, artefact_of: BuildOf, demo_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The function's server without the adapter before it, which would collect the answer."""
    artefact, port = artefact_of("relay", runtime.target), free_port()
    assert artefact.function.start is not None
    folder, temporary = artefact.unpacked(), tmp_path_factory.mktemp("relay")
    environ = server_environment(runtime, folder, temporary, port) | demo_settings
    with running([folder / artefact.function.start], port, environ=environ, folder=folder):
        yield f"http://127.0.0.1:{port}"


def test_the_openai_client_streams(server: str) -> None:
    client = openai.OpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0)
    stream = client.chat.completions.create(
        model="qwen3", messages=[{"role": "user", "content": "Hello"}], stream=True, n=2
    )
    texts = ["", ""]
    chunks = 0
    for chunk in stream:
        chunks += 1
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or (choice.delta.model_extra or {}).get("reasoning") or ""
    assert texts == ["Hello! How can I help you today?"] * 2
    assert chunks > 8, "as the engine sends them"


def test_bad_requests_are_answered_in_the_error_shape(server: str) -> None:
    for body, status in ((b"{", 400), (b"{}", 400), (b'{"messages": []}', 400)):
        answer = httpx.post(f"{server}/v1/chat/completions", content=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, status), body


def test_the_log_has_the_adapters_ids(start: Start, tmp_path: Path) -> None:
    relay = start("relay")
    event = recorded_event("relay-chat-stream")
    assert relay.invoke(event)["statusCode"] == 200
    text = (tmp_path / "log").read_text()
    (line,) = [line for line in text.splitlines() if '"message":"request"' in line]
    assert f'"gateway_request_id":"{event["requestContext"]["requestId"]}"' in line
    assert '"request_id":"' in line
    assert '"cold_start":true' in line, "the adapter's readiness check is no request"
    assert "Paris" not in text


def test_a_wrong_setting_stops_the_start_with_its_name(start: Start, tmp_path: Path) -> None:
    relay = start("relay", DERENDER_ENGINE_URL="engine:8000")
    with pytest.raises(InvokeError, match="ended with status"):
        relay.invoke(recorded_event("relay-chat"))
    assert "DERENDER_ENGINE_URL must hold http:// or https:// addresses" in (tmp_path / "log").read_text()


def test_a_model_in_s3_with_the_runtimes_own_boto3(
    start: Start, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not there at the start: the function starts all the same, answers 503, and finds it when it is there."""
    from core.bundle.contents import bundle_contents
    from core.bundle.folder import FolderFiles
    from core.bundle.s3 import parse_address, upload

    with faulty_s3() as s3:
        s3.client().create_bucket(Bucket="models")
        relay = start("relay", DERENDER_MODEL="s3://models/q", AWS_ENDPOINT_URL_S3=s3.url, **CREDENTIALS)
        event = recorded_event("relay-chat")
        assert relay.invoke(event)["statusCode"] == 503
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": s3.url}.items():
            monkeypatch.setenv(name, value)
        upload(parse_address("s3://models/q"), bundle_contents(FolderFiles(models_dir / "qwen3")))
        assert relay.invoke(event)["statusCode"] == 200


SNAPSHOT = """
import asyncio, json, os, sys
sys.path.insert(0, os.getcwd())
from handlers.relay import app
import httpx
from httpx import ASGITransport
async def call_all(calls):
    async with httpx.AsyncClient(transport=ASGITransport(app), base_url="http://relay") as client:
        return [(await client.post(path, json=body)).text for path, body in calls]
loaded = set(sys.modules)
answers = asyncio.run(call_all(json.loads(sys.argv[1])))
ours = sorted(name for name in set(sys.modules) - loaded if name.split(".")[0] in ("core", "handlers", "vllm", "tokenizers", "jinja2"))
print(json.dumps([answers, ours]))
"""
CHAT = {"model": "qwen3", "messages": [{"role": "user", "content": "What is 2+2?"}]}


def started_for_a_snapshot(
    runtime: Runtime, folder: Path, settings: dict[str, str], calls: list[Any], **more: str
) -> subprocess.CompletedProcess[str]:
    environ = {**settings, "PYTHONPATH": str(runtime.packages), "PATH": os.environ["PATH"], **more}
    command = [str(runtime.python), "-S", "-c", SNAPSHOT, json.dumps(calls)]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", ["snap-start", "on-demand"])
def test_a_snapshot_holds_what_the_first_request_loads(
    runtime: Runtime, artefact_of: BuildOf, demo_settings: dict[str, str], kind: str
) -> None:
    calls = [
        ("/v1/chat/completions", {**CHAT, "stream": True}),
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", {"model": "qwen3", "prompt": "Hello"}),
    ]
    folder = artefact_of("relay", runtime.target).unpacked()
    done = started_for_a_snapshot(runtime, folder, demo_settings, calls, AWS_LAMBDA_INITIALIZATION_TYPE=kind)
    assert done.returncode == 0, done.stderr
    answers, late = json.loads(done.stdout.splitlines()[-1])
    assert "data: [DONE]" in answers[0]
    assert "2 + 2 = 4." in answers[1]
    # An ordinary start leaves to the first request what it may not need.
    assert bool(late) == (kind == "on-demand"), late


def test_no_version_of_the_relay_is_published_without_its_model(
    runtime: Runtime, artefact_of: BuildOf, demo_settings: dict[str, str], tmp_path: Path
) -> None:
    settings = {**demo_settings, "DERENDER_MODEL": "s3://models/p", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}
    settings |= {**CREDENTIALS, "TMPDIR": str(tmp_path)}
    folder = artefact_of("relay", runtime.target).unpacked()
    done = started_for_a_snapshot(runtime, folder, settings, [], AWS_LAMBDA_INITIALIZATION_TYPE="snap-start")
    assert done.returncode != 0
    assert done.stderr.startswith("derender: the model could not be loaded")
