"""What the Lambda tests share: the built artefacts of this machine's architecture, and functions running under the emulator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.emulator import Emulator, Runtime, prepare_runtime
from infra.emulator.invoke import DEMO_SETTINGS
from infra.package.build import ROOT, Artefact, Workshop
from infra.package.functions import find_function
from infra.package.target import Target
from tests.engine.generation import Engine
from tests.engine.model import Model as EngineModel
from tests.engine.script import DEFAULT_SCRIPT, Script
from tests.engine.server import create_app as create_engine_app
from tests.support.event_answers import with_json
from tests.support.serving import serving

Start = Callable[..., Emulator]
Invoke = Callable[..., dict[str, Any]]
EVENTS = ROOT / "events"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # On one worker: artefacts and running functions are made once.
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("lambda"))


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    return prepare_runtime()


@pytest.fixture(scope="session")
def workshop() -> Workshop:
    return Workshop()


@pytest.fixture(scope="session")
def artefact_of(workshop: Workshop) -> Callable[[str, Target], Artefact]:
    def build(name: str, target: Target) -> Artefact:
        function = find_function(name)
        assert function is not None
        return workshop.build(function, target)

    return build


@pytest.fixture(scope="session")
def engine_url(models_dir: Path) -> Iterator[str]:
    """The scripted engine, as bare as a token engine is."""
    engine = Engine(EngineModel(models_dir / "qwen3"), Script(DEFAULT_SCRIPT), ["qwen3"], tokens_only=True)
    with serving(create_engine_app(engine)) as url:
        yield url


@pytest.fixture(scope="session")
def demo_settings(models_dir: Path, engine_url: str) -> dict[str, str]:
    """The settings with which the events in ``events/`` are recorded; the relay's are of no matter to the others."""
    return {**DEMO_SETTINGS, "DERENDER_MODEL": str(models_dir / "qwen3"), "DERENDER_ENGINE_URL": engine_url}


@pytest.fixture
def start(
    runtime: Runtime, artefact_of: Callable[[str, Target], Artefact], tmp_path: Path, demo_settings: dict[str, str]
) -> Iterator[Start]:
    """Start a function under the emulator, with the demo's settings and others; its log is ``tmp_path / "log"``."""
    running: list[Emulator] = []

    def start_one(name: str, /, *, read_only: bool = False, **settings: str) -> Emulator:
        artefact = artefact_of(name, runtime.target)
        temporary = tmp_path / "tmp"
        temporary.mkdir(exist_ok=True)
        with (tmp_path / "log").open("a") as log:
            emulator = Emulator(
                runtime,
                artefact.unpacked(),
                artefact.function.handler,
                {**demo_settings, **settings},
                temporary,
                read_only=read_only,
                log=log,
            )
        running.append(emulator)
        return emulator

    yield start_one
    for emulator in running:
        emulator.stop()


@pytest.fixture(scope="session")
def invoke(
    runtime: Runtime,
    artefact_of: Callable[[str, Target], Artefact],
    demo_settings: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Invoke]:
    """Invoke a function with the demo's settings; it is started once a session. A body of JSON is parsed."""
    running: dict[str, Emulator] = {}

    def call(name: str, event: dict[str, Any]) -> dict[str, Any]:
        if name not in running:
            folder = tmp_path_factory.mktemp(name)
            artefact = artefact_of(name, runtime.target)
            with (folder / "log").open("w") as log:
                running[name] = Emulator(
                    runtime, artefact.unpacked(), artefact.function.handler, demo_settings, folder, log=log
                )
        answer: dict[str, Any] = running[name].invoke(event)
        return with_json(answer)

    yield call
    for emulator in running.values():
        emulator.stop()


@pytest.fixture(scope="session")
def template() -> dict[str, Any]:
    """``template.yaml`` in its long form, its loops expanded."""
    command = [ROOT / ".venv-sam" / "bin" / "python", "-W", "ignore", ROOT / "tests" / "lambda" / "expansion.py"]
    done = subprocess.run([*command, ROOT / "template.yaml", "--loops"], capture_output=True, text=True, check=True)
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded
