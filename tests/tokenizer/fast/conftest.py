from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from core.bundle.folder import FolderFiles
from core.tokenizer import FastTokenizer, load_tokenizer
from core.tokenizer.fast.encoder import FastEncoder
from core.tokenizer.fast.load import encoder_of
from handlers.work.memory import give_back

Both = Callable[[str], tuple[FastTokenizer, FastEncoder]]


@pytest.fixture(scope="module")
def both(models_dir: Path) -> Iterator[Both]:
    """The tokenizer of a family, which does not use it, and its fast encoder."""

    @cache
    def load(family: str) -> tuple[FastTokenizer, FastEncoder]:
        tokenizer = load_tokenizer(FolderFiles(models_dir / family))
        assert isinstance(tokenizer, FastTokenizer)
        encoder = encoder_of(tokenizer, tokenizer.read_source())
        assert encoder is not None
        return tokenizer, encoder

    yield load
    load.cache_clear()
    give_back()  # gigabytes, which the processes of later tests would be forked with
