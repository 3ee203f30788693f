"""What the container tests share: the scripted engine where containers reach it, `sam local`, images and containers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from infra.package.build import ROOT
from infra.package.target import Target, host_target
from tests.support.servers import free_port, running

SAM = ROOT / ".venv-sam" / "bin" / "sam"
ENVIRON = {**os.environ, "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1", "DOCKER_BUILDKIT": "0"}
HOST = "host.docker.internal:host-gateway"
# The address that the local settings name.
ENGINE_PORT = 8200
_SECONDS = 300.0


def run(*command: str | Path, seconds: float = _SECONDS) -> str:
    """What a command prints; its standard error is shown when it fails."""
    done = subprocess.run(command, cwd=ROOT, env=ENVIRON, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@dataclass(frozen=True)
class Container:
    """A running container, with the address of its published port."""

    name: str
    url: str

    def log(self) -> str:
        done = subprocess.run(["docker", "logs", self.name], capture_output=True, text=True)
        return done.stdout + done.stderr

    def wait_until_open(self, path: str = "/", seconds: float = 120.0) -> httpx.Response:
        """The first answer of any status."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return httpx.get(self.url + path, timeout=5)
            except httpx.TransportError:
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.2)


Start = Callable[..., Container]


@pytest.fixture(scope="session")
def target() -> Target:
    found = host_target()
    assert found is not None
    return found


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return ROOT / "build" / "models" / "qwen3"


@pytest.fixture(scope="session")
def engine(model_folder: Path) -> Iterator[str]:
    """The scripted engine, as containers address it."""
    command = [str(ROOT / ".venv" / "bin" / "python"), "examples/scripted_engine.py", "--host", "0.0.0.0"]
    command += ["--port", str(ENGINE_PORT), "--model", str(model_folder), "--tokens-only"]
    log = ROOT / "build" / "docker-engine.log"
    with running(command, ENGINE_PORT, seconds=_SECONDS, environ=dict(os.environ), log=log):
        yield f"http://{HOST.split(':')[0]}:{ENGINE_PORT}"


@pytest.fixture(scope="session")
def image(target: Target) -> Callable[[str], str]:
    """Build a target of the Dockerfile, with the builder that every Docker has; its tag."""
    built: dict[str, str] = {}

    def build(name: str) -> str:
        if name not in built:
            tag = f"derender-test-{name}"
            run("docker", "build", "--target", name, "--build-arg", f"ARCH={target.name}", "-t", tag, ".")
            built[name] = tag
        return built[name]

    return build


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Start a container of an image with options of `docker run`; it is removed after the test."""
    names: list[str] = []

    def start_one(image: str, port: int, *options: str, command: tuple[str, ...] = ()) -> Container:
        name = f"derender-{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower())}-{len(names)}"
        subprocess.run(["docker", "rm", "-f", name], capture_output=True)
        names.append(name)
        outside = free_port()
        published = ("-p", f"127.0.0.1:{outside}:{port}", "--add-host", HOST)
        run("docker", "run", "-d", "--name", name, *published, *options, image, *command)
        return Container(name, f"http://127.0.0.1:{outside}")

    yield start_one
    for name in names:
        subprocess.run(["docker", "rm", "-f", name], capture_output=True)


@pytest.fixture(scope="session")
def local_settings() -> dict[str, str]:
    """The settings that the recorded events go with."""
    settings = json.loads((ROOT / "infra" / "package" / "local_settings.json").read_text())
    return {**settings["all"], **settings["relay"]}
