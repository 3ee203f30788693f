"""Copies of a prototype are as good as parsers that were built."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from core.parsing.checkpoint import CheckpointRefused, Prototype
from tests.checkpoint.carrying import LAYOUTS, prototype_of, snapshot
from tests.checkpoint.equality import step, uninterrupted
from tests.checkpoint.setups import PAIRS, Deployments, Pair
from tests.checkpoint.streams import Setup, model_config, parser_class, request


def processor_of(setup: Setup, prototype: Prototype) -> Any:
    processor = setup.processor()
    processor.parser = prototype.fresh()
    return processor


@pytest.mark.parametrize("pair", PAIRS)
def test_copies_parse_as_built_parsers_do(deployments: Deployments, pair: Pair) -> None:
    rng = random.Random(f"{pair} fresh")
    setup, stream, prompt = deployments.stream(pair, rng, mutated=False)
    prototype = prototype_of(setup.processor().parser)
    expected = uninterrupted(setup, stream, prompt)
    for _ in range(2):
        # The second copy meets a prototype whose first copy was used.
        processor = processor_of(setup, prototype)
        assert snapshot(processor) == snapshot(setup.processor())
        assert [step(processor, chunk, prompt) for chunk in stream] == expected


@pytest.mark.parametrize("pair", PAIRS)
def test_copies_share_nothing_that_changes(deployments: Deployments, pair: Pair) -> None:
    rng = random.Random(f"{pair} shared")
    setup, stream, prompt = deployments.stream(pair, rng, mutated=False)
    pristine = setup.processor().parser
    prototype = prototype_of(pristine)
    before = [copy.copy(vars(part)) for part, _ in LAYOUTS.walk(pristine)]
    held = [{k: copy.copy(v) for k, v in values.items() if isinstance(v, list | dict | set)} for values in before]
    used, unused = processor_of(setup, prototype), processor_of(setup, prototype)
    for chunk in stream:
        used.step(chunk.text, list(chunk.ids), None, prompt)
    for (part, _), values, containers in zip(LAYOUTS.walk(pristine), before, held, strict=True):
        now = vars(part)
        # A vocabulary is looked up when it is first needed.
        assert all(now[name] is value for name, value in values.items())
        assert all(now[name] == value for name, value in containers.items())
    assert snapshot(unused) == snapshot(setup.processor())
    parts = [{id(part) for part, _ in LAYOUTS.walk(parser)} for parser in (pristine, used.parser, unused.parser)]
    assert not parts[0] & parts[1]
    assert not parts[1] & parts[2]
    assert not parts[0] & parts[2]


def test_what_cannot_be_carried_cannot_be_copied(deployments: Deployments) -> None:
    tokenizer = deployments.load("mistral-spm", False)
    setup = Setup(tokenizer, parser_class("mistral", None, tokenizer), model_config("mistral"), request())
    with pytest.raises(CheckpointRefused):
        prototype_of(setup.processor().parser)


def test_methods_belong_to_the_copy(deployments: Deployments) -> None:
    parser = deployments.setup(("deepseek_v4", None)).processor().parser
    engine = prototype_of(parser).fresh()._tool_parser._parser_engine
    assert engine._arg_converter.__self__ is engine
