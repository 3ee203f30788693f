"""derender-client as its users get it: a wheel and an sdist, each installed by pip into an empty environment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.xdist_group("client")

CLIENT = ROOT / "client"
MODULES = {f"derender_client/{path.name}" for path in (CLIENT / "derender_client").iterdir() if path.is_file()}
ROUND_TRIP = """
import asyncio, json, sys
from derender_client import AsyncDerenderClient, DerenderClient

service, engine = sys.argv[1:]
request = {"model": "qwen3", "messages": [{"role": "user", "content": "2+2"}]}

async def streamed():
    async with AsyncDerenderClient(service, engine) as client:
        return [chunk async for chunk in client.stream_chat(request, gather_tokens=4, gather_ms=50)]

with DerenderClient(service, engine) as client:
    whole = client.chat(request)["choices"][0]["message"]["content"]
chunks = asyncio.run(streamed())
text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
print(json.dumps({"whole": whole, "streamed": text, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""
TYPED = """
from derender_client import DerenderClient

with DerenderClient("http://localhost:8100", compress=True) as client:
    reveal_type(client.chat({}))
    client.chat("not a request")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    uv = Path(sys.executable).with_name("uv")
    run([uv, "build", "-q", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, CLIENT])
    return folder


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def python(request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the client and what pip installed with it."""
    (distribution,) = built.glob(request.param)
    folder = tmp_path_factory.mktemp("environment")
    # The versions of the lock: what is tried is the client, not the newest httpx.
    constraints = folder / "constraints.txt"
    pins = re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    constraints.write_text("\n".join(pins))
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", constraints, distribution])
    return python


def run(command: list[str | Path], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_the_wheel_holds_the_package_and_its_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"derender_client-{metadata.version('derender-client')}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == MODULES
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert "derender_client/py.typed" in names


def test_the_sdist_holds_what_the_wheel_is_built_from(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*MODULES, "LICENSE", "README.md", "pyproject.toml"} <= names


def test_its_licence_is_the_projects() -> None:
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_httpx_is_its_one_dependency(python: Path) -> None:
    assert [re.match(r"[\w-]+", line)[0] for line in metadata.requires("derender-client") or ()] == ["httpx"]  # type: ignore[index]
    listed = json.loads(run([python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]))
    installed = {entry["name"] for entry in listed} - {"pip", "setuptools"}
    assert {"derender-client", "httpx"} <= installed
    assert installed <= {"derender-client", "httpx", "httpcore", "anyio", "h11", "idna", "certifi", "typing_extensions"}


def test_a_round_trip_in_an_empty_environment(python: Path, service: str, engine: str, tmp_path: Path) -> None:
    found = json.loads(run([python, "-I", "-c", ROUND_TRIP, service, engine], cwd=tmp_path))
    assert found["whole"].strip() == found["streamed"].strip() == "2 + 2 = 4."
    assert not {"core", "handlers", "infra", "client", "vllm"} & set(found["modules"])


def test_its_types_reach_the_caller(python: Path, tmp_path: Path) -> None:
    """mypy reads the installed package's annotations, which it does only of a package with ``py.typed``."""
    (tmp_path / "caller.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable", python, "caller.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert 'Revealed type is "dict[str, Any]"' in re.sub(r"builtins\.|typing\.", "", done.stdout)
    assert len(errors) == 1, done.stdout + done.stderr
    assert 'Argument 1 to "chat" of "DerenderClient" has incompatible type "str"' in errors[0]
