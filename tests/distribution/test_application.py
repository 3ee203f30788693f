"""The application as pip installs it: a wheel and an sdist, each in an environment that holds nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.servers import free_port, running

pytestmark = pytest.mark.xdist_group("distribution")

ROOT = Path(__file__).parents[2]
# Names that a checkout has at its top, or that others have: none of them may be in the way of an environment's own.
PRIVATE = (
    "core",
    "handlers",
    "infra",
    "tests",
    "client",
    "derender_client",
    "benchmarks",
    "examples",
    "vllm",
    "xgrammar",
)
CALL = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    uv = Path(sys.executable).with_name("uv")
    run([uv, "build", "-q", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, ROOT], ROOT)
    return folder


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of the lock: what is tried is the application, not the newest of everything."""
    path = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    pins = re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    path.write_text("\n".join(pins))
    return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment. What it installs is installed once; the wheel and the sdist follow each other in it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=True)
    return folder / "venv"


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def installed(request: pytest.FixtureRequest, built: Path, constraints: Path, environment: Path) -> Path:
    """The environment with the application in it."""
    (distribution,) = built.glob(request.param)
    python = environment / "bin" / "python"
    run([python, "-m", "pip", "uninstall", "-q", "-y", "derender"], environment)
    run([python, "-m", "pip", "install", "-q", "--constraint", constraints, distribution], environment)
    return environment


def run(command: list[Any], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=bare(), capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bare() -> dict[str, str]:
    """This process's environment variables without those that let Python see this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


@contextmanager
def served(environment: Path, model: Path, folder: Path) -> Iterator[str]:
    port = free_port()
    command = [environment / "bin" / "derender", "serve", str(model), "--port", str(port), "--served-model-name", "m"]
    command += ["--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", "--enable-auto-tool-choice"]
    with running(command, port, environ={**bare(), "PYTHONPATH": str(folder)}, folder=folder):
        yield f"http://127.0.0.1:{port}"


def post(url: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(url, json=body, timeout=60, trust_env=False)


def test_only_one_name_is_taken(installed: Path) -> None:
    found = {path.name for path in packages(installed).iterdir()}
    assert "derender" in found
    assert not found & {*PRIVATE, *(f"{name}.py" for name in PRIVATE)}
    python = installed / "bin" / "python"
    for name in ("core", "handlers", "vllm"):
        done = subprocess.run(
            [python, "-c", f"import {name}"], cwd=installed, env=bare(), capture_output=True, text=True, timeout=60
        )
        assert f"No module named '{name}'" in done.stderr


def test_it_serves_a_round_trip(installed: Path, models_dir: Path, tmp_path: Path) -> None:
    """With packages of others in its way that have the names of its own."""
    for name in ("core", "handlers", "vllm"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the wrong one')")
    request = {"model": "m", "messages": [{"role": "user", "content": "Go"}], "tools": [TOOL]}
    with served(installed, models_dir / "qwen3", tmp_path) as url:
        rendered = post(f"{url}/v1/chat/completions/render", request)
        assert rendered.status_code == 200
        ids = post(f"{url}/tokenize", {"model": "m", "prompt": CALL, "add_special_tokens": False}).json()["tokens"]
        output = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids, "finish_reason": "stop"}]}
        body = {
            "generate_response": output,
            "chat_request": request,
            "prompt_token_ids": rendered.json()["token_ids"],
            "prompt_tokens": len(rendered.json()["token_ids"]),
        }
        message = post(f"{url}/v1/chat/completions/derender", body).json()["choices"][0]["message"]
        assert message["reasoning"].strip() == "Hm."
        calls = [call["function"] for call in message["tool_calls"]]
        assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [("f", {"x": 1})]
        assert post(f"{url}/v1/chat/completions/render", {**request, "model": "other"}).status_code == 404
        tag = {"type": "structural_tag", "format": {"type": "grammar", "grammar": 'root ::= "yes" | "no"'}}
        assert post(f"{url}/v1/chat/completions/render", {**request, "response_format": tag}).status_code == 200
        tag["format"] = {"type": "grammar", "grammar": "root ::= ("}
        assert post(f"{url}/v1/chat/completions/render", {**request, "response_format": tag}).status_code == 400


def test_what_only_a_checkout_can_do_says_so(installed: Path) -> None:
    command = [installed / "bin" / "derender", "invoke", "derender", str(ROOT / "events" / "derender-chat.json")]
    done = subprocess.run(command, cwd=installed, env=bare(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "derender: invoke builds a Lambda function: run it in a checkout of the project\n"


def test_without_parsers_it_says_what_to_do(installed: Path, models_dir: Path, tmp_path: Path) -> None:
    slices = packages(installed) / "derender" / "_slices"
    shutil.move(slices, tmp_path / "slices")
    try:
        command = [installed / "bin" / "derender", "serve", str(models_dir / "qwen3"), "--tool-call-parser", "hermes"]
        done = subprocess.run(
            command, cwd=installed, env=bare(), capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        shutil.move(tmp_path / "slices", slices)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "`make setup`" in done.stderr


def test_the_wheel_holds_what_the_product_is(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for folder in ("core", "handlers"):
        own = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.*") if path.suffix != ".pyc"}
        assert own == {name.removeprefix("derender/_app/") for name in names if f"_app/{folder}/" in name}
    assert {name.split("/")[0].split("-")[0] for name in names} == {"derender"}
    assert {name.split("/")[1] for name in names if name.startswith("derender/")} == {
        "__init__.py", "__main__.py", "_app", "_slices",
    }  # fmt: skip
    assert any("xgrammar/LICENSE" in name for name in names)
    assert any("dist-info/licenses/vllm/LICENSE" in name for name in names)


def test_the_sdist_brings_the_slice(built: Path) -> None:
    """So that it is installed without fetching vLLM."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert any(re.fullmatch(r"build/slice/vllm-.*\.whl", name) for name in names)
    assert not any(name.startswith(("tests/", "benchmarks/", "client/")) for name in names)


def test_the_declared_dependencies_are_those_of_the_locks() -> None:
    """Each is in the lock of the server, but for what the wheel holds itself and what is an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.match(r"[\w-]+", text)[0]: text for text in project["dependencies"]}  # type: ignore[index]
    wanted: dict[str, str] = {}
    for name in ("runtime.in", "relay.in", "server.in"):
        for line in (ROOT / "requirements" / name).read_text().splitlines():
            if line and not line.startswith(("#", "-r")):
                wanted[re.match(r"[\w-]+", line)[0]] = line  # type: ignore[index]
    assert wanted.pop("mangum"), "Lambda's events"
    assert wanted.pop("xgrammar"), "it declares torch: its library is in the wheel, and the wheel needs what that needs"
    assert wanted.pop("boto3"), "an extra"
    assert declared.keys() == wanted.keys() | {"apache-tvm-ffi"}
    for name, line in wanted.items():
        if "==" in line:
            assert declared[name] == line
