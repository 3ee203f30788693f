"""Tokenizers for the parsers, and how much to test.

``CHECKPOINT_RUNS`` multiplies the number of generated outputs (default 1; the
suite then takes about a minute on two cores).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from core.tokenizer import Tokenizer
from tests.checkpoint import formats
from tests.checkpoint.setups import Deployments
from tests.support.models import tokenizer_in

RUNS = int(os.environ.get("CHECKPOINT_RUNS", "1"))


@pytest.fixture(scope="session")
def deployments(models_dir: Path) -> Deployments:
    """Deployments of every parser and pair; each tokenizer is loaded once."""

    @cache
    def load(model: str, templated: bool) -> Tokenizer:
        tokenizer = tokenizer_in(models_dir / model)
        if templated:
            tokenizer.init_kwargs["response_template"] = formats.RESPONSE_TEMPLATE
        return tokenizer

    return Deployments(load)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """vLLM's parsers log an error with its traceback for every malformed output."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def runs() -> Callable[[int], int]:
    """How many examples to try where the short suite tries ``count``."""
    return lambda count: count * RUNS


def pytest_make_parametrize_id(config: pytest.Config, val: Any, argname: str) -> str | None:
    if argname == "pair":
        return "+".join(str(name) for name in val if name)
    return None
