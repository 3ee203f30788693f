"""The prompt is read once: by the first step, or before it."""

from __future__ import annotations

import random

import pytest

from core.parsing.checkpoint import pack, unpack
from tests.checkpoint.carrying import read_prompt, restore, snapshot
from tests.checkpoint.equality import LIMITS, step, uninterrupted
from tests.checkpoint.setups import PAIRS, Deployments, Pair


@pytest.mark.parametrize("pair", PAIRS)
def test_a_prompt_read_beforehand_counts_as_the_first_steps(deployments: Deployments, pair: Pair) -> None:
    rng = random.Random(f"{pair} prompt")
    for _ in range(4):
        setup, stream, prompt = deployments.stream(pair, rng, mutated=False)
        first = setup.processor()
        read_prompt(first, prompt)
        packed = pack(snapshot(first))
        processor = setup.processor()
        restore(processor, unpack(packed, LIMITS))
        answers = [step(processor, chunk, None) for chunk in stream]
        # A stream ends where its parser fails.
        expected = uninterrupted(setup, stream, prompt)
        assert answers[: len(expected)] == expected


@pytest.mark.parametrize("pair", PAIRS)
def test_a_prompt_sent_again_is_ignored(deployments: Deployments, pair: Pair) -> None:
    rng = random.Random(f"{pair} again")
    setup, stream, prompt = deployments.stream(pair, rng, mutated=False)
    other = setup.tokenizer.encode("<think>\n</think>\n<|im_start|>user\n<think>", add_special_tokens=False)
    expected = uninterrupted(setup, stream, prompt)
    answers = []
    packed = ""
    for chunk in stream[: len(expected)]:
        processor = setup.processor()
        if packed:
            restore(processor, unpack(packed, LIMITS))
        answers.append(step(processor, chunk, other if packed else prompt))
        packed = pack(snapshot(processor))
    assert answers == expected


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair in (("hf", "hf"), ("beam", "beam"))])
def test_a_long_prompt_is_not_carried(deployments: Deployments, pair: Pair) -> None:
    setup = deployments.setup(pair)
    prompt = "A long prompt. " * 1000 + "<|im_start|>assistant\n<think>\n"
    processor = setup.processor()
    read_prompt(processor, setup.tokenizer.encode(prompt, add_special_tokens=False))
    assert len(pack(snapshot(processor))) < 200
