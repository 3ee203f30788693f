"""Model folders, tokenizers and loaded models: one way to have them, for all tests."""

from __future__ import annotations

import fcntl
import os
from functools import cache
from pathlib import Path
from typing import Any

from core.bundle.folder import FolderFiles
from core.model import Model, load_model
from core.options import ModelOptions
from core.tokenizer import Tokenizer, load_tokenizer
from infra.models import MODELS, build

ROOT = Path(__file__).parents[2]
FAMILIES = ("qwen3", "qwen3.5", "llama3", "deepseek", "mistral-spm", "families", "gpt-oss")
"""The folders with a ``tokenizer.json``, one of each kind."""


@cache
def model_folders() -> Path:
    """The folder of the model folders (``/ "qwen3"``, ...), built once and kept between sessions.

    Workers of pytest-xdist wait for the one that builds.
    """
    folder = ROOT / "build" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in MODELS:
            build(name, folder)
    finally:
        os.close(lock)
    return folder


def tokenizer_in(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder."""
    return load_tokenizer(FolderFiles(folder))


def load(folder: Path, **options: Any) -> Model:
    """A model folder with options, served under its own name unless they say otherwise."""
    return load_model(FolderFiles(folder), ModelOptions(**{"served_names": (folder.name,), **options}))
