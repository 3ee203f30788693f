"""Tokenizers of every family, loaded once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from core.bundle.folder import FolderFiles
from core.tokenizer import Tokenizer, load_tokenizer

FAMILIES = ("qwen3", "qwen3.5", "llama3", "deepseek", "mistral-spm", "families", "gpt-oss")


@pytest.fixture(scope="session")
def tokenizer_of(models_dir: Path) -> Callable[[str], Tokenizer]:
    """The tokenizer of a family by its folder's name."""

    @cache
    def load(name: str) -> Tokenizer:
        return load_tokenizer(FolderFiles(models_dir / name))

    return load
