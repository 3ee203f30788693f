"""Deployments of every pair, and silence: vLLM's parsers log a traceback for every output that they cannot read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.equality.cases import Models


@pytest.fixture(scope="session")
def deployed(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(models_dir, tmp_path_factory.mktemp("equality"))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
