"""The server's image: nothing of Lambda's, not root, a read-only file system, a health check, small."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import httpx
import openai
import pytest

from core.bundle.folder import FolderFiles
from infra.package.build import ROOT
from tests.docker.conftest import HOST, Start, run
from tests.support.waiting import wait_for

MB = 1_000_000
PARSERS = ("--served-model-name", "qwen3", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
PARSERS = (*PARSERS, "--enable-auto-tool-choice", "--host", "0.0.0.0")
# What an orchestrator that trusts nobody sets.
LOCKED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
CHAT = {"model": "qwen3", "messages": [{"role": "user", "content": "What is 2+2?"}], "max_tokens": 32}


def health(name: str) -> str:
    return run("docker", "inspect", "--format", "{{.State.Health.Status}}", name).strip()


def test_the_image_is_small_and_holds_nothing_of_lambda(image: Callable[[str], str]) -> None:
    described = json.loads(run("docker", "image", "inspect", image("serve")))[0]
    assert described["Size"] < 200 * MB
    config = described["Config"]
    assert config["User"] == "65532:65532"
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert not [variable for variable in config["Env"] if "LAMBDA" in variable or "AWS" in variable]
    listed = run(
        "docker", "run", "--rm", "--entrypoint", "find", image("serve"), "/app", "/opt", "/var", "-maxdepth", "2"
    )
    for word in ("awslambdaric", "mangum", "lambda-adapter", "/var/runtime", "/var/task"):
        assert word not in listed


def test_a_model_by_volume(image: Callable[[str], str], start: Start, model_folder: Path, engine: str) -> None:
    command = ("/model", *PARSERS, "--engine-url", engine)
    container = start(image("serve"), 8000, *LOCKED, "-v", f"{model_folder}:/model:ro", command=command)
    assert container.wait_until_open("/health").status_code == 200
    assert wait_for(lambda: health(container.name) == "healthy", 60), container.log()
    assert run("docker", "exec", container.name, "id", "-u").strip() == "65532"
    rendered = httpx.post(f"{container.url}/v1/chat/completions/render", json=CHAT, timeout=60)
    assert len(rendered.json()["token_ids"]) > 5
    client = openai.OpenAI(base_url=f"{container.url}/v1", api_key="none", timeout=60)
    chunks = client.chat.completions.create(
        model="qwen3", messages=[{"role": "user", "content": "What is 2+2?"}], stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices).strip() == "2 + 2 = 4."
    written = [line for line in run("docker", "diff", container.name).splitlines() if line != "A /model"]
    assert not written, "a read-only file system stays as it was, but for the place where the volume is"


def test_a_stop_is_heard(image: Callable[[str], str], start: Start, model_folder: Path) -> None:
    container = start(image("serve"), 8000, *LOCKED, "-v", f"{model_folder}:/model:ro", command=("/model", *PARSERS))
    container.wait_until_open("/health")
    run("docker", "stop", "-t", "20", container.name)
    code = run("docker", "inspect", "--format", "{{.State.ExitCode}}", container.name).strip()
    assert code in ("0", "143"), container.log()


def test_an_unloadable_model_is_one_sentence(image: Callable[[str], str], tmp_path: Path) -> None:
    command = ["docker", "run", "--rm", *LOCKED, "-v", f"{tmp_path}:/model:ro", image("serve"), "/model"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.fixture(scope="module")
def bucket(model_folder: Path) -> Iterator[tuple[str, str]]:
    """An S3 of moto's, as containers address it, and the address of a bundle there."""
    from moto.server import ThreadedMotoServer

    from core.bundle.contents import bundle_contents

    server = ThreadedMotoServer("0.0.0.0", port=0)
    server.start()
    _, port = server.get_host_and_port()
    s3 = boto3.client("s3", "us-east-1", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id="x", aws_secret_access_key="x")  # fmt: skip
    s3.create_bucket(Bucket="models")
    for name, content in bundle_contents(FolderFiles(model_folder)).items():
        s3.put_object(Bucket="models", Key=f"qwen3/v1/{name}", Body=content)
    yield f"http://{HOST.split(':')[0]}:{port}", "s3://models/qwen3/v1"
    server.stop()


def test_a_model_in_s3(image: Callable[[str], str], start: Start, bucket: tuple[str, str]) -> None:
    endpoint, address = bucket
    keys = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-1",
    }
    options = [word for name, value in keys.items() for word in ("-e", f"{name}={value}")]
    container = start(image("serve"), 8000, *LOCKED, "--tmpfs", "/tmp", *options, command=(address, *PARSERS))
    assert container.wait_until_open("/health").status_code == 200, container.log()
    rendered = httpx.post(f"{container.url}/v1/chat/completions/render", json=CHAT, timeout=60)
    assert len(rendered.json()["token_ids"]) > 5


def test_the_dockerfile_names_the_command() -> None:
    assert 'ENTRYPOINT ["python3", "-m", "handlers.commands", "serve"]' in (ROOT / "Dockerfile").read_text()
