"""Tekken folders, made once a session, and what needs mistral-common."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from core.tokenizer.mistral import TekkenTokenizer
from tests.support.models import tokenizer_in
from tests.tokenizer.tekken.vocabularies import folder_name, make_folders


@pytest.fixture(scope="session")
def tekken_dir(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model folders of `vocabularies.py`."""
    folder = tmp_path_factory.mktemp("tekken")
    make_folders(models_dir / "mistral-tekken", folder)
    return folder


@pytest.fixture(scope="session")
def tekken_of(tekken_dir: Path) -> Callable[[str], TekkenTokenizer]:
    """The tokenizer of a version ("v3", ...)."""

    @cache
    def load(version: str) -> TekkenTokenizer:
        tokenizer = tokenizer_in(tekken_dir / folder_name(version))
        assert isinstance(tokenizer, TekkenTokenizer)
        return tokenizer

    return load
