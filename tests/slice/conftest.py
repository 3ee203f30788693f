"""What the slice's tests share: running a piece of code in a fresh Python, and the published wheels."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.slice.build import Upstream, upstream
from infra.slice.versions import specification

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def fresh() -> Callable[[str], Any]:
    """Runs code in a new process, where nothing is imported yet; gives what it prints, read as JSON."""

    def run(code: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def upstream_of() -> Callable[[str], Upstream]:
    """What a version's slice is read from: what set-up fetched, or what is fetched now."""
    return cache(lambda version: upstream(specification(version)))
