"""Client libraries, as they come from their registries, in an agent's loop with two tools through the relay.

Whatever the model family, the engine's chunks and the dialect, each gets both calls with
both arguments, once, and the answer; and what the model thought, where the library
tells it. ``make clients`` installs the libraries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.proxy import OFFLINE, litellm_proxy
from tests.clients.stage import ANSWER, FAMILIES, Endpoints, endpoints

ROOT = Path(__file__).parents[2]
AGENTS = Path(__file__).parent / "agents"
NODE = Path(__file__).parent / "node"
BIN = ROOT / ".venv-clients" / "bin"
PYTHON = BIN / "python"
CALLS = [["get_weather", {"city": "Paris"}], ["get_time", {"zone": "Europe/Paris"}]]
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


@dataclass(frozen=True)
class Library:
    """A library's command, the endpoint that it is to ask, and whether it tells what the model thought."""

    command: list[str | Path]
    path: str
    thinks: bool = False


def _both(name: str, command: list[str | Path], path: str, *, thinks: bool = True) -> dict[str, Library]:
    """A library that is run streaming, and not."""
    return {
        name: Library(command, path, thinks),
        f"{name}, whole": Library([*command, "whole"], path, thinks),
    }


# The environment of the project has a newer openai than LlamaIndex takes.
LIBRARIES: dict[str, Library] = {
    "openai-newest": Library([sys.executable, AGENTS / "openai_stream.py"], CHAT),
    "openai": Library([PYTHON, AGENTS / "openai_stream.py"], CHAT),
    "langchain": Library([PYTHON, AGENTS / "langchain.py"], CHAT),
    "llamaindex": Library([PYTHON, AGENTS / "llamaindex.py"], CHAT),
    "pydantic-ai": Library([PYTHON, AGENTS / "pydantic_ai_stream.py"], CHAT),
    "litellm": Library([PYTHON, AGENTS / "litellm_stream.py"], CHAT),
    **_both("ai-sdk", ["node", NODE / "agent.mjs"], CHAT),
    **_both("openai-newest responses", [sys.executable, AGENTS / "openai_responses.py"], RESPONSES),
    **_both("openai responses", [PYTHON, AGENTS / "openai_responses.py"], RESPONSES),
    **_both("openai-agents", [PYTHON, AGENTS / "openai_agents.py"], RESPONSES),
    # It keeps no reasoning text of Responses but summaries, which vLLM does not write.
    **_both("langchain responses", [PYTHON, AGENTS / "langchain.py", "responses"], RESPONSES, thinks=False),
    **_both("litellm responses", [PYTHON, AGENTS / "litellm_dialects.py"], RESPONSES),
    **_both("ai-sdk openai", ["node", NODE / "agent.mjs", "openai"], RESPONSES, thinks=False),
    **_both("anthropic-newest", [sys.executable, AGENTS / "anthropic_messages.py"], MESSAGES),
    **_both("langchain-anthropic", [PYTHON, AGENTS / "langchain.py", "messages"], MESSAGES),
    **_both("litellm messages", [PYTHON, AGENTS / "litellm_dialects.py", "messages"], MESSAGES),
    **_both("ai-sdk anthropic", ["node", NODE / "agent.mjs", "anthropic"], MESSAGES),
}
BEHIND_PROXY: dict[str, Library] = {
    "chat": Library([PYTHON, AGENTS / "openai_stream.py"], CHAT),
    **_both("responses", [PYTHON, AGENTS / "openai_responses.py"], RESPONSES),
    **_both("messages", [PYTHON, AGENTS / "anthropic_messages.py"], MESSAGES),
}
pytestmark = pytest.mark.xdist_group("clients")


@dataclass(frozen=True)
class Stage:
    """The relays, and what they were asked since it was last forgotten."""

    relays: Endpoints
    asked: list[tuple[str, str]]


@pytest.fixture(scope="module")
def stage(models_dir: Path) -> Iterator[Stage]:
    asked: list[tuple[str, str]] = []
    with endpoints(models_dir, asked) as found:
        yield Stage(found, asked)


@pytest.fixture(scope="module")
def proxied(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """The large relays behind LiteLLM's proxy."""
    assert (BIN / "litellm").exists(), "make clients installs the libraries"
    large = [relay for relay in stage.relays if relay["large"]]
    with litellm_proxy(BIN / "litellm", large, tmp_path_factory.mktemp("litellm")) as models:
        yield models


def run(command: list[str | Path], relays: Endpoints) -> dict[str, Any]:
    """What an agent did at each relay, by name."""
    assert Path(command[0]).exists() or command[0] == "node", "make clients installs the libraries"
    ended = subprocess.run(
        command,
        input=json.dumps(relays),
        capture_output=True,
        text=True,
        timeout=600,
        cwd=NODE,
        env=os.environ | OFFLINE,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    done: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return done


@pytest.mark.parametrize("name", LIBRARIES)
def test_both_calls_with_both_arguments(stage: Stage, name: str) -> None:
    _check(LIBRARIES[name], stage, stage.relays)


@pytest.mark.parametrize("name", BEHIND_PROXY)
def test_behind_litellms_proxy(stage: Stage, proxied: Endpoints, name: str) -> None:
    way = name.split(",")[0]
    _check(BEHIND_PROXY[name], stage, [model for model in proxied if model["way"] == way])


def test_what_is_not_stored_cannot_be_referred_to(stage: Stage) -> None:
    """The AI SDK's provider for OpenAI refers to stored reasoning unless it is told not to: the refusal says what."""
    relays = [relay for relay in stage.relays if relay["name"] == "hermes-7"]
    done = run(["node", NODE / "agent.mjs", "openai", "stored"], relays)
    assert "Unsupported input item type: item_reference" in done["hermes-7"]["error"]


def _check(library: Library, stage: Stage, relays: Endpoints) -> None:
    stage.asked.clear()
    done = run(library.command, relays)
    assert set(done) == {relay["name"] for relay in relays}
    wrong = {name: what for name, what in done.items() if not _is_right(what, name, library)}
    assert not wrong, json.dumps(wrong, indent=1)
    # No library and no proxy took another way than the one that is named.
    assert {path for _, path in stage.asked} == {library.path}
    assert {name for name, _ in stage.asked} == set(done)


def _is_right(what: dict[str, Any], name: str, library: Library) -> bool:
    thought = FAMILIES[name.rsplit("-", 1)[0]].thought if library.thinks else ""
    right = sorted(what["calls"]) == sorted(CALLS) and ANSWER in what.get("text", "")
    return right and thought in what.get("thoughts", "")
