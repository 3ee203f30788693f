"""Fixtures and options that the whole test suite shares."""

import fcntl
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The examples are not installed, and pytest's importlib mode leaves sys.path alone.
sys.path.insert(0, str(ROOT))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("golden corpus")
    group.addoption(
        "--golden-mode",
        choices=["checkpoint", "replay", "both"],
        default="both",
        help="how streams through a parser carry their state (default: run them both ways)",
    )
    group.addoption("--golden-core", action="store_true", help="only the cases marked core")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "golden: a recorded case of vLLM's own server")


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of the model folders (`models_dir / "qwen3"`, ...), built once and kept between sessions.

    Workers of pytest-xdist wait for the one that builds.
    """
    from infra.models import MODELS, build

    folder = ROOT / "build" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in MODELS:
            build(name, folder)
    finally:
        os.close(lock)
    return folder
