"""A relay in front of the scripted engine, as bare as a real token engine: it knows no text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from core.tokenizer import Tokenizer
from handlers.server import server_app
from handlers.settings import Settings
from tests.engine.generation import Engine
from tests.engine.model import Model as EngineModel
from tests.engine.script import DEFAULT_SCRIPT, Script
from tests.engine.server import create_app as create_engine_app
from tests.support.models import tokenizer_in
from tests.support.serving import serving

MODEL = "qwen3"
PARSERS: dict[str, Any] = {
    "tool_call_parser": "hermes",
    "reasoning_parser": "qwen3",
    "enable_auto_tool_choice": True,
}
COUNTING = " ".join(f"{number}," for number in range(1, 400))
FAULTS: dict[str, dict[str, Any]] = {
    "breaks at once": {"kind": "break"},
    "breaks later": {"kind": "break", "after": 5},
    "is cut": {"kind": "cut", "after": 5},
    "reports an error at once": {"kind": "error"},
    "reports an error later": {"kind": "error", "after": 5},
    "sends no json": {"kind": "wrong", "after": 5},
    "sends another shape": {"kind": "wrong", "after": 5, "text": '{"choices": [{"index": "x"}]}'},
    "sends a strange choice": {"kind": "wrong", "after": 5, "text": '{"choices": [{"index": 7, "token_ids": [1]}]}'},
    "sends strange ids": {"kind": "wrong", "after": 5, "text": '{"choices": [{"index": 0, "token_ids": [-4]}]}'},
    "never ends": {"kind": "endless"},
    "answers 500": {"kind": "status", "status": 500},
    "answers 503": {"kind": "status", "status": 503},
    "answers 429": {"kind": "status", "status": 429},
    "answers 401": {"kind": "status", "status": 401},
    "answers 400": {"kind": "status", "status": 400},
    "is slow to begin": {"kind": "slow", "seconds": 0.7},
    "is slow later": {"kind": "slow", "after": 5, "seconds": 0.7},
    "is silent": {"kind": "slow", "after": 5, "seconds": 30},
    "is silent at once": {"kind": "slow", "seconds": 30},
}
SCRIPT: dict[str, Any] = {
    "rules": [
        *({"match": f"^{match}$", "answer": COUNTING, "fault": fault} for match, fault in FAULTS.items()),
        {"match": "^count$", "answer": COUNTING},
        {"match": "^differ$", "answer": ["The first answer.", "Another one, which is longer.", "Short."]},
        {"match": "^emoji$", "answer": "Ünïcödé 👩‍🚀 and 漢字 end"},
        *DEFAULT_SCRIPT["rules"],
    ]
}


@dataclass
class Setup:
    """A running relay and its engine. `client` makes no attempt twice: what goes wrong is to be seen."""

    url: str
    engine: Engine
    engine_url: str
    client: openai.OpenAI


@pytest.fixture(scope="session")
def engine_model(models_dir: Path) -> EngineModel:
    return EngineModel(models_dir / MODEL)


@pytest.fixture(scope="session")
def tokenizer(models_dir: Path) -> Tokenizer:
    return tokenizer_in(models_dir / MODEL)


@pytest.fixture(scope="session")
def make_engine(engine_model: EngineModel) -> Callable[..., Engine]:
    """A scripted engine; options are the engine's, `script` its script."""

    def make(script: dict[str, Any] | None = None, **options: Any) -> Engine:
        return Engine(engine_model, Script(script or SCRIPT), [MODEL], **{"tokens_only": True, **options})

    return make


@pytest.fixture(scope="session")
def make_relay(models_dir: Path) -> Callable[..., Any]:
    """The application of a relay; options are settings."""

    def make(*engine_urls: str, **options: Any) -> Any:
        return server_app(
            Settings(model=str(models_dir / MODEL), served_model_name=(MODEL,), engine_url=engine_urls, **options)
        )

    return make


@pytest.fixture(scope="session")
def start(make_engine: Callable[..., Engine], make_relay: Callable[..., Any]) -> Iterator[Callable[..., Setup]]:
    """Start a relay with an engine of its own; both end with the session."""
    with ExitStack() as stack:

        def run(engine: Engine | None = None, engine_key: str | None = None, **options: Any) -> Setup:
            engine = engine or make_engine()
            engine_url = stack.enter_context(serving(create_engine_app(engine, engine_key)))
            url = stack.enter_context(serving(make_relay(engine_url, **options)))
            return Setup(url, engine, engine_url, client_of(url))

        yield run


def client_of(url: str, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30)


@pytest.fixture(scope="session")
def plain(start: Callable[..., Setup]) -> Setup:
    """A relay without a parser, two tokens an engine chunk."""
    return start()


@pytest.fixture(scope="session")
def parsed(start: Callable[..., Setup]) -> Setup:
    """A relay with hermes and qwen3."""
    return start(**PARSERS)
