"""The servers that the examples talk to: the service of ``make demo`` with the relay on, and the scripted engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes

NAMES = ["qwen3"]


@pytest.fixture(scope="session")
def engine(models_dir: Path) -> Iterator[str]:
    with processes.process(*processes.engine(models_dir / "qwen3", "--served-model-name", *NAMES)) as url:
        yield url


@pytest.fixture(scope="session")
def service(models_dir: Path, engine: str) -> Iterator[str]:
    # As the demo names it: relative to the repository, which is where the process runs.
    folder = (models_dir / "qwen3").relative_to(processes.ROOT)
    command = processes.service(folder, "--served-model-name", *NAMES, "--engine-url", engine)
    with processes.process(*command) as url:
        yield url
