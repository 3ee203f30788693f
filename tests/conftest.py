"""Fixtures and options that the whole test suite shares."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Before any client's library: typing keeps one object for unions that are equal, and two that list the same literals in
# another order are. A client's that came first would be named in the words of vLLM's refusals.
import vllm.entrypoints.anthropic.protocol  # noqa: F401
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from core.tokenizer import Tokenizer

# How long an example takes says nothing on a busy machine.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # Needs Docker: `make test-docker` names it, and nothing else collects it.
    named = any("tests/docker" in argument for argument in config.invocation_params.args)
    return True if collection_path == ROOT / "tests" / "docker" and not named else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "golden: a recorded case of vLLM's own server")


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of the model folders (`models_dir / "qwen3"`, ...)."""
    from tests.support.models import model_folders

    return model_folders()


@pytest.fixture(scope="session")
def tokenizer_of(models_dir: Path) -> Callable[[str], Tokenizer]:
    """The tokenizer of a model folder by its name, loaded once a session."""
    from tests.support.models import tokenizer_in

    return cache(lambda name: tokenizer_in(models_dir / name))
