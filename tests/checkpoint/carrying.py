"""Checkpoints of the parsers of the vLLM that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.parsing import checkpoint
from core.parsing.checkpoint import Plain, Prototype
from core.upstream.tables import installed_layouts

LAYOUTS = installed_layouts()


def check_supported(parser: Any) -> None:
    checkpoint.check_supported(parser, LAYOUTS)


def snapshot(processor: Any) -> Plain:
    return checkpoint.snapshot(processor, LAYOUTS)


def moment(processor: Any) -> checkpoint.Moment:
    return checkpoint.moment(processor, LAYOUTS)


def restore(processor: Any, data: Plain) -> None:
    checkpoint.restore(processor, data, LAYOUTS)


def read_prompt(processor: Any, prompt_token_ids: Sequence[int]) -> None:
    checkpoint.read_prompt(processor, prompt_token_ids, LAYOUTS)


def prototype_of(parser: Any) -> Prototype:
    return Prototype(parser, LAYOUTS)
