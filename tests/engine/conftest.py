"""An engine on the qwen3 folder, with the limits of the recorded one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.engine.generation import Engine
from tests.engine.model import Model
from tests.engine.script import DEFAULT_SCRIPT, Script
from tests.engine.server import create_app


@pytest.fixture(scope="session")
def model(models_dir: Path) -> Model:
    return Model(models_dir / "qwen3", max_model_len=4096)


@pytest.fixture
def make_client(model: Model) -> Callable[..., TestClient]:
    """A client of an engine that answers `answer` to everything, or from the built-in script."""

    def make(answer: str | list[str] | None = None, **options: Any) -> TestClient:
        source = DEFAULT_SCRIPT if answer is None else {"rules": [{"match": "", "answer": answer}]}
        return TestClient(create_app(Engine(model, Script(source), ["qwen3"], **options)))

    return make


@pytest.fixture
def ask(model: Model) -> Callable[..., Any]:
    """Ask an engine a question as a rendered chat; the decoded answer."""

    def ask(client: TestClient, question: str, suffix: str = "", **params: Any) -> dict[str, Any]:
        prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{suffix}"
        request = {"token_ids": model.encode(prompt), "sampling_params": params}
        body = client.post("/inference/v1/generate", json=request).json()
        choice = body["choices"][0]
        return {**choice, "text": model.decode(choice["token_ids"])}

    return ask
