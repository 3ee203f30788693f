"""An engine that plays recorded outputs back, and the service in front of it as each recorded server was configured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.services import service
from tests.golden.application import InProcess
from tests.relay.replaying import ReplayingEngine
from tests.support.serving import serving


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[ReplayingEngine, str]]:
    replaying = ReplayingEngine()
    with serving(replaying.app) as url:
        yield replaying, url


class Services:
    """The application in use; the one before it is stopped first, so that only one model is in memory."""

    def __init__(self, models_dir: Path, url: str, scratch: Any) -> None:
        self._made_of = models_dir, url, scratch
        self._key = ""
        self._stack = ExitStack()
        self._current: InProcess | None = None

    def get(self, key: str) -> InProcess:
        if self._current is None or key != self._key:
            self.close()
            models_dir, url, scratch = self._made_of
            running = service(json.loads(key), models_dir, url, scratch.mktemp("service"))
            self._current, self._key = self._stack.enter_context(running), key
        return self._current

    def close(self) -> None:
        self._stack.close()
        self._current = None


@pytest.fixture(scope="module")
def services(
    models_dir: Path, engine: tuple[ReplayingEngine, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Services]:
    found = Services(models_dir, engine[1], tmp_path_factory)
    yield found
    found.close()
