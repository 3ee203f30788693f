"""The servers of these tests: derender serve in both modes, the scripted engine, proxies in front of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.client.calling import AsyncCaller, SyncCaller
from tests.client.proxy import Proxy, proxy
from tests.client.staged import Stage, staged_engine
from tests.support import processes

NAMES = ["qwen3", "meta-llama/Llama-3.2-1B-Instruct"]
LONG_TOKENS = 1000
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich", "unit": "C"}}\n</tool_call>'


def long_answer(model: Path) -> str:
    """Reasoning, text and a tool call: exactly 1,000 tokens with the end of sequence."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))

    def text(words: int) -> str:
        return f"<think>\nFirst{' step' * 200}.\n</think>\n\nÜber 東京 🌤{' word' * words}.\n{CALL}"

    def size(words: int) -> int:
        return len(tokenizer.encode(text(words), add_special_tokens=False).ids) + 1

    words = LONG_TOKENS - size(0)
    assert size(words) == LONG_TOKENS
    return text(words)


@pytest.fixture(scope="session")
def engine(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The scripted engine, one token an event."""
    rules: list[dict[str, Any]] = [
        {"match": "long", "answer": long_answer(models_dir / "qwen3")},
        {"match": "weather", "answer": f"<think>\nThey want the weather.\n</think>\n\nI look.\n{CALL}"},
        {"match": "two", "answer": ["<think>\nOne.\n</think>\n\nThe first 😀 answer.", f"Second: {CALL}"]},
        {"match": "2 ?\\+ ?2", "answer": "<think>\nTwo and two.\n</think>\n\n2 + 2 = 4."},
        {"match": "", "answer": "Plain: {user} 東京 🌤"},
    ]
    script = tmp_path_factory.mktemp("script") / "script.json"
    script.write_text(json.dumps({"rules": rules}))
    command = processes.engine(models_dir / "qwen3", "--script", str(script), "--served-model-name", *NAMES)
    with processes.process(*command) as url:
        yield url


@pytest.fixture(scope="session")
def service(models_dir: Path) -> Iterator[str]:
    with processes.process(*processes.service(models_dir / "qwen3", "--served-model-name", *NAMES)) as url:
        yield url


@pytest.fixture
def watched(service: str) -> Iterator[Proxy]:
    """The service behind a proxy."""
    with proxy(service) as running:
        yield running


@pytest.fixture
def watched_engine(engine: str) -> Iterator[Proxy]:
    """The engine behind a proxy."""
    with proxy(engine) as running:
        yield running


@pytest.fixture
def stage() -> Iterator[Stage]:
    """An engine that plays a prepared stream."""
    with staged_engine() as running:
        yield running


@pytest.fixture(params=[SyncCaller, AsyncCaller], ids=["sync", "async"])
def open_client(request: pytest.FixtureRequest) -> type[SyncCaller]:
    """Either client, to be opened with its arguments."""
    caller: type[SyncCaller] = request.param
    return caller
