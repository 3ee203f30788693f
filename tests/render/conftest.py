"""Loaded models and small model folders for the rendering tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from core.model import Model
from tests.support.models import load

ModelOf = Callable[..., Model]
FolderOf = Callable[..., Path]

HERMES = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True}
HARMONY = {"tool_call_parser": "openai", "enable_auto_tool_choice": True, "system_start_date": "2031-01-15"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="session")
def model_of(models_dir: Path) -> ModelOf:
    """A model by its folder's name and options, loaded once."""
    loaded: dict[str, Model] = {}

    def get(name: str, **options: Any) -> Model:
        key = json.dumps([name, options], sort_keys=True)
        if key not in loaded:
            loaded[key] = load(models_dir / name, **options)
        return loaded[key]

    return get


@pytest.fixture
def folder_of(models_dir: Path, tmp_path: Path) -> FolderOf:
    """A copy of a model folder with other files: texts by name, None for a file to leave out."""

    def make(files: Mapping[str, str | None], name: str = "custom", origin: str = "qwen3") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for source in (models_dir / origin).iterdir():
            if source.is_file() and source.name not in files:
                (folder / source.name).symlink_to(source)
        for path, text in files.items():
            if text is not None:
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
        return folder

    return make


def chat(content: Any = "Hello", **fields: Any) -> dict[str, Any]:
    """A chat request with one user message."""
    return {"messages": [{"role": "user", "content": content}], **fields}


def prompt_text(model: Model, rendered: Mapping[str, Any]) -> str:
    """The text of a rendered prompt, special tokens shown."""
    return model.tokenizer.decode(rendered["token_ids"])
