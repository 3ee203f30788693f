"""The functions as images: built with the builder that every Docker has, and answered through their own emulator."""

from __future__ import annotations

import json
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.package.build import ROOT
from infra.package.functions import FUNCTIONS
from infra.package.target import Target
from tests.docker.conftest import ENVIRON, Start
from tests.support.event_answers import EXPECTED, with_json
from tests.support.gateway import recorded_event
from tests.support.streams import events_of

INVOKE = "/2015-03-31/functions/function/invocations"
CALLED = [function.name for function in FUNCTIONS if not function.start]
CHAT = {"model": "qwen3", "messages": [{"role": "user", "content": "What is 2+2?"}], "stream": True, "max_tokens": 64}


def options(settings: dict[str, str], model: Path) -> list[str]:
    given = {**settings, "DERENDER_MODEL": "/model"}
    return ["-v", f"{model}:/model:ro", *(word for name, value in given.items() for word in ("-e", f"{name}={value}"))]


@pytest.mark.parametrize("name", CALLED)
def test_an_image_answers_its_events(
    image: Callable[[str], str], start: Start, local_settings: dict[str, str], model_folder: Path, name: str
) -> None:
    container = start(image(name), 8080, *options(local_settings, model_folder))
    container.wait_until_open()
    for event, (function, check) in EXPECTED.items():
        if function != name:
            continue
        response = httpx.post(container.url + INVOKE, json=recorded_event(event), timeout=60)
        answer: dict[str, Any] = with_json(response.json())
        assert answer.get("statusCode") == 200, f"{event}: {answer}\n{container.log()}"
        check(answer)


def test_the_relays_image_streams(
    image: Callable[[str], str], start: Start, local_settings: dict[str, str], model_folder: Path, engine: str
) -> None:
    container = start(image("relay"), 8080, *options({**local_settings, "DERENDER_ENGINE_URL": engine}, model_folder))
    container.wait_until_open("/health")
    arrivals: list[float] = []
    text = ""
    with httpx.stream("POST", f"{container.url}/v1/chat/completions", json=CHAT, timeout=60) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        for piece in response.iter_text():
            arrivals.append(time.monotonic())
            text += piece
    assert text.rstrip().endswith("data: [DONE]")
    content = "".join(c["delta"].get("content") or "" for event in events_of(text) for c in event["choices"])
    assert content.strip() == "2 + 2 = 4."
    assert len(arrivals) > 1, "the answer came in pieces, not whole"


def test_the_older_builder_builds_derender_alone(target: Target) -> None:
    command = ["docker", "build", "--no-cache", "--target", "derender", "--build-arg", f"ARCH={target.name}", "."]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRON, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "derender-" in done.stdout
    assert not any(f"dist/images/{name}-" in done.stdout for name in ("render", "relay", "serve")), done.stdout


def test_the_context_holds_the_artefacts_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
    command = ["docker", "build", "-q", "-f", str(tmp_path / "Dockerfile"), "-t", "derender-test-context", "."]
    subprocess.run(command, cwd=ROOT, env=ENVIRON, check=True, capture_output=True)
    saved = subprocess.run(["docker", "save", "derender-test-context"], check=True, capture_output=True).stdout
    archive = tmp_path / "image.tar"
    archive.write_bytes(saved)
    names: set[str] = set()
    with tarfile.open(archive) as image:
        manifest = json.load(image.extractfile("manifest.json"))  # type: ignore[arg-type]
        for layer in manifest[0]["Layers"]:
            with tarfile.open(fileobj=image.extractfile(layer)) as files:
                names |= {entry.name for entry in files if entry.isfile()}
    assert names == {path.relative_to(ROOT).as_posix() for path in (ROOT / "dist" / "images").glob("*.tar.gz")}
