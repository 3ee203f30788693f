"""What the slice's tests share: running a piece of code in a fresh Python, and the published wheel."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
def published_wheel() -> Path:
    """The vLLM wheel that the slice is cut from: the one that set-up downloaded, or a new download."""
    from infra.slice.fetch import DEFAULT_CACHE, fetch

    return fetch(ROOT / "requirements" / "vllm.txt", DEFAULT_CACHE)
