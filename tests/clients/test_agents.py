"""Client libraries, as they come from their registries, in an agent's loop with two tools through the relay.

Whatever the model family and the engine's chunks, each gets both calls with
both arguments, once, and the answer. ``make clients`` installs the libraries.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.stage import ANSWER, endpoints

ROOT = Path(__file__).parents[2]
AGENTS = Path(__file__).parent / "agents"
NODE = Path(__file__).parent / "node"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
CALLS = [["get_weather", {"city": "Paris"}], ["get_time", {"zone": "Europe/Paris"}]]
# The environment of the project has a newer openai than LlamaIndex takes.
LIBRARIES: dict[str, list[str | Path]] = {
    "openai-newest": [sys.executable, AGENTS / "openai_stream.py"],
    "openai": [PYTHON, AGENTS / "openai_stream.py"],
    "langchain": [PYTHON, AGENTS / "langchain.py"],
    "llamaindex": [PYTHON, AGENTS / "llamaindex.py"],
    "pydantic-ai": [PYTHON, AGENTS / "pydantic_ai_stream.py"],
    "litellm": [PYTHON, AGENTS / "litellm_stream.py"],
    "ai-sdk": ["node", NODE / "agent.mjs"],
}
pytestmark = pytest.mark.xdist_group("clients")


@pytest.fixture(scope="module")
def relays(models_dir: Path) -> Iterator[list[dict[str, str]]]:
    with endpoints(models_dir) as found:
        yield found


def run(command: list[str | Path], relays: list[dict[str, str]]) -> dict[str, Any]:
    """What an agent did at each relay, by name."""
    assert Path(command[0]).exists() or command[0] == "node", "make clients installs the libraries"
    ended = subprocess.run(command, input=json.dumps(relays), capture_output=True, text=True, timeout=300, cwd=NODE)
    assert ended.returncode == 0, ended.stderr[-3000:]
    done: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return done


@pytest.mark.parametrize("library", LIBRARIES)
def test_both_calls_with_both_arguments(relays: list[dict[str, str]], library: str) -> None:
    done = run(LIBRARIES[library], relays)
    assert set(done) == {relay["name"] for relay in relays}
    wrong = {name: what for name, what in done.items() if not _is_right(what)}
    assert not wrong, json.dumps(wrong, indent=1)


def _is_right(what: dict[str, Any]) -> bool:
    return sorted(what["calls"]) == sorted(CALLS) and ANSWER in what.get("text", "")
