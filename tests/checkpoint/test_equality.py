"""A stream carried from checkpoint to checkpoint answers what an uninterrupted one answers, chunk for chunk."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from core.parsing.checkpoint import CheckpointRefused, pack, unpack
from tests.checkpoint import formats
from tests.checkpoint.carrying import check_supported, restore, snapshot
from tests.checkpoint.equality import LIMITS, checkpointed, replayed, uninterrupted, waited, without_ids
from tests.checkpoint.setups import PAIRS, TOOL_PARSERS, WITHOUT_PACKAGE, Deployments, Pair, is_harmony
from tests.checkpoint.streams import CALLS, chunks


def seeds(pair: Pair, count: int) -> list[int]:
    return [random.Random(f"{pair}").randrange(2**31) + i for i in range(count)]


@pytest.mark.parametrize("pair", PAIRS)
def test_same_answers_as_an_uninterrupted_stream(
    deployments: Deployments, pair: Pair, runs: Callable[[int], int]
) -> None:
    for seed in seeds(pair, runs(4)):
        rng = random.Random(seed)
        setup, stream, prompt = deployments.stream(pair, rng, mutated=bool(seed % 2))
        answers, _ = checkpointed(setup, stream, prompt)
        assert answers == uninterrupted(setup, stream, prompt), f"seed {seed}"


@pytest.mark.parametrize("pair", PAIRS)
def test_a_parser_that_waits_is_where_a_restored_one_is(
    deployments: Deployments, pair: Pair, runs: Callable[[int], int]
) -> None:
    for seed in seeds(pair, runs(4)):
        rng = random.Random(seed + 2)
        setup, stream, prompt = deployments.stream(pair, rng, mutated=bool(seed % 2))
        answers, checkpoints = waited(setup, stream, prompt)
        expected, restored = checkpointed(setup, stream, prompt)
        assert answers == expected, f"seed {seed}"
        assert [without_ids(text) for text in checkpoints] == [without_ids(text) for text in restored], f"seed {seed}"


@pytest.mark.parametrize("pair", PAIRS)
def test_same_answers_as_vllms_replay(deployments: Deployments, pair: Pair, runs: Callable[[int], int]) -> None:
    for seed in seeds(pair, runs(1)):
        rng = random.Random(seed + 1)
        setup, stream, prompt = deployments.stream(pair, rng, mutated=False)
        answers, _ = checkpointed(setup, stream, prompt)
        for position in {rng.randrange(len(answers)) for _ in range(3)} | {len(answers) - 1}:
            assert answers[position] == replayed(setup, stream, prompt, position), f"seed {seed} chunk {position}"


@pytest.mark.parametrize("pair", PAIRS)
def test_a_restored_parser_saves_what_it_was_restored_from(deployments: Deployments, pair: Pair) -> None:
    setup, stream, prompt = deployments.stream(pair, random.Random(5), mutated=False)
    live = setup.processor()
    for chunk in stream[:-1]:
        live.step(chunk.text, list(chunk.ids), None, prompt)
        data = snapshot(live)
        packed = pack(data)
        assert unpack(packed, LIMITS) == data
        again = setup.processor()
        restore(again, unpack(packed, LIMITS))
        # What was left out once may be cut further, and is then left alone.
        once = snapshot(again)
        last = setup.processor()
        restore(last, once)
        assert snapshot(last) == once


@pytest.mark.parametrize("tool", [name for name in TOOL_PARSERS if name not in WITHOUT_PACKAGE])
def test_the_outputs_hold_calls_that_the_parser_finds(deployments: Deployments, tool: str) -> None:
    # Otherwise the tests above would compare nothing.
    pair = (tool, "openai_gptoss" if tool == "openai" else None)
    setup = deployments.setup(pair, chat_template_kwargs={"reasoning_effort": "high"})
    text = formats.TOOL_WRITERS[tool](CALLS[0])
    if is_harmony(pair):
        text = text.removeprefix("<|start|>assistant")
    ids = setup.tokenizer.encode(text, add_special_tokens=False)
    answers = uninterrupted(setup, list(chunks(setup.tokenizer, [], ids, 3)), [])
    found = any("'name': 'get_weather'" in answer for answer in answers)
    # vLLM's streaming for this one returns nothing.
    assert found is (tool != "phi4_mini_json")


# vLLM's own streaming sends the call's markup as content, too (docs/results/equality.md: content only streamed).
MARKUP_IN_CONTENT = frozenset({"hunyuan_a13b", "minicpm5"})


@pytest.mark.parametrize("tool", [name for name in TOOL_PARSERS if name not in WITHOUT_PACKAGE])
def test_the_outputs_have_the_form_that_the_parser_expects(deployments: Deployments, tool: str) -> None:
    # A parser that looks for parts of the markup finds the call in another form, too, and leaves the rest as content.
    pair = (tool, "openai_gptoss" if tool == "openai" else None)
    setup = deployments.setup(pair)
    text = formats.TOOL_WRITERS[tool]([formats.Call("get_weather", {"city": "Oslo", "days": 3})])
    if is_harmony(pair):
        text = text.removeprefix("<|start|>assistant")
    ids = setup.tokenizer.encode(text, add_special_tokens=False)
    processor = setup.processor()
    content = ""
    for chunk in chunks(setup.tokenizer, [], ids, 1):
        delta, _ = processor.step(chunk.text, list(chunk.ids), chunk.finish_reason, [])
        content += (delta and delta.content) or ""
    assert bool(content.strip()) is (tool in MARKUP_IN_CONTENT), content


def test_a_class_that_is_not_known_is_refused(deployments: Deployments) -> None:
    setup = deployments.setup(("hermes", None))
    processor = setup.processor()
    parser = processor.parser._tool_parser

    class Unknown(type(parser)):  # type: ignore[misc]
        def extract_tool_calls_streaming(self, *args: object) -> None:
            return None

    parser.__class__ = Unknown
    with pytest.raises(CheckpointRefused, match="Unknown is not a known part"):
        check_supported(processor.parser)
    with pytest.raises(CheckpointRefused):
        snapshot(processor)


def test_an_unknown_value_is_refused(deployments: Deployments) -> None:
    setup = deployments.setup(("hermes", None))
    processor = setup.processor()
    processor.parser._tool_parser.prev_tool_call_arr = [{"arguments": object()}]
    with pytest.raises(CheckpointRefused, match="holds a object"):
        snapshot(processor)
