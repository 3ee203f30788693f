"""The table of the installed vLLM against its source, and against what parsers really change."""

from __future__ import annotations

import importlib
import random
from functools import cache
from typing import Any

import pytest

from core.parsing.checkpoint import CheckpointRefused
from core.parsing.checkpoint.part import Part
from core.upstream.v0_33 import TABLE
from tests.unit.checkpoint.carrying import LAYOUTS, check_supported, snapshot
from tests.unit.checkpoint.setups import PAIRS, Deployments, Pair
from tests.unit.checkpoint.streams import Setup, model_config, parser_class, request
from tests.unit.checkpoint.vllm_source import Change, changes

# Objects that are no part of a parser's state: what a step returns, the request, the classes of a registry.
NO_STATE_HOLDERS = frozenset(
    {
        "HarmonyParser",
        "cls",
        "current_tool_call",
        "current_tool_call.function",
        "delta",
        "delta.function",
        "delta_message",
        "existing",
        "existing.function",
        "fn",
        "function",
        "last_tc.function",
        "message",
        "msg",
        "name_delta",
        "request",
        "result",
        "tc.function",
        "tool_call.function",
    }
)
# What methods reach on other objects: the class that it belongs to.
OTHER_HOLDERS = {
    "self._counting_parser_engine": "ParserEngine",
    "self._engine": "StreamingParserEngine",
    "self._parser_engine": "ParserEngine",
    "self._tool_slots[idx]": "ToolCallSlot",
    "slot": "ToolCallSlot",
    "state": "StreamState",
}
# Their own classes, under the qualified names of the table.
HOLDING_CLASSES = {
    "ParserEngine": "vllm.parser.engine.parser_engine.ParserEngine",
    "StreamState": "vllm.parser.abstract_parser.StreamState",
    "StreamingParserEngine": "vllm.parser.engine.streaming_parser_engine.StreamingParserEngine",
    "ToolCallSlot": "vllm.parser.engine.parser_engine.ToolCallSlot",
}


def known(change: Change) -> bool:
    if change.holder == "self":
        name = f"{change.module}.{change.name}"
    else:
        name = HOLDING_CLASSES.get(OTHER_HOLDERS.get(change.holder, ""), "")
    return change.attribute in attributes_of(name)


@cache
def attributes_of(name: str) -> frozenset[str]:
    """The attributes that the table accounts for, of the class with this qualified name."""
    module, _, attribute = name.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module), attribute)
        layout = LAYOUTS.of(cls)
    except (ImportError, ValueError):
        # A module whose package is not installed: what its own part says.
        part = TABLE.parts.get(name, Part())
        return frozenset({*part.state, *part.late, *part.kept, *part.left_out})
    except CheckpointRefused:
        return frozenset()
    return layout.kept | layout.left_out | layout.saved


def test_every_attribute_that_vllm_changes_is_accounted_for() -> None:
    unknown = {
        f"{change.module}.{change.name}.{change.method}: {change.holder}.{change.attribute}"
        for change in changes()
        if change.holder not in NO_STATE_HOLDERS
        and change.name not in ("ParserManager", "ReasoningParserManager", "ToolParserManager", "_DeltaBuilder")
        and not known(change)
    }
    assert not unknown


def test_the_source_is_read() -> None:
    found = list(changes())
    assert len(found) > 500
    assert any(c.name == "Hermes2ProToolParser" and c.attribute == "_sent_content_idx" for c in found)


@pytest.mark.parametrize("pair", PAIRS)
def test_every_parser_is_supported(deployments: Deployments, pair: Pair) -> None:
    check_supported(deployments.setup(pair, chat_template_kwargs={"thinking": True}).processor().parser)


@pytest.mark.parametrize("pair", PAIRS)
def test_fresh_parsers_are_alike(deployments: Deployments, pair: Pair) -> None:
    setup = deployments.setup(pair)
    assert snapshot(setup.processor()) == snapshot(setup.processor())


def outline(value: Any) -> Any:
    """A value that can be compared between two parsers built alike: small containers by content, the rest by identity."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple | set | frozenset | dict) and len(value) < 1000:
        items = value.items() if isinstance(value, dict) else value
        return type(value).__name__, sorted(map(repr, items)) if isinstance(value, set | frozenset) else repr(items)
    return type(value).__name__


# The vocabulary, looked up when it is first needed.
UNLISTED = frozenset({"vocab"})


@pytest.mark.parametrize("pair", PAIRS)
def test_nothing_but_the_listed_attributes_changes(deployments: Deployments, pair: Pair) -> None:
    rng = random.Random(11)
    for _ in range(3):
        setup, stream, prompt = deployments.stream(pair, rng, mutated=rng.random() < 0.5)
        fresh = setup.processor()
        live = setup.processor()
        for chunk in stream:
            live.step(chunk.text, list(chunk.ids), chunk.finish_reason, prompt)
        for (part, layout), (pristine, _) in zip(LAYOUTS.walk(live.parser), LAYOUTS.walk(fresh.parser), strict=True):
            listed = layout.saved | layout.kept | layout.left_out | {*layout.children} | UNLISTED
            now = {name: outline(value) for name, value in vars(part).items() if name not in listed}
            then = {name: outline(value) for name, value in vars(pristine).items() if name not in listed}
            assert now == then, type(part).__name__


def test_parsers_with_state_in_compiled_code_are_refused() -> None:
    # Its module cannot be imported without a package that is not installed: parts are found by name.
    stand_in = type("CohereCommandParser", (), {"__module__": "vllm.parser.cohere_command"})
    (refused,) = LAYOUTS.of(stand_in).refusals
    assert "compiled" in str(refused(None))


def test_the_mistral_parser_of_old_vocabularies_is_refused(deployments: Deployments) -> None:
    tokenizer = deployments.load("mistral-spm", False)
    setup = Setup(tokenizer, parser_class("mistral", None, tokenizer), model_config("mistral"), request())
    processor = setup.processor()
    with pytest.raises(CheckpointRefused, match="coroutine"):
        check_supported(processor.parser)
    with pytest.raises(CheckpointRefused, match="coroutine"):
        snapshot(processor)


def test_a_composed_class_of_a_deployment_adds_nothing() -> None:
    from vllm.parser.harmony import HarmonyParser

    composed = type("HarmonyParser", (HarmonyParser,), {"reasoning_parser_cls": None, "tool_parser_cls": None})
    assert LAYOUTS.of(composed).names == LAYOUTS.of(HarmonyParser).names
    assert TABLE.part_of(type("Other", (HarmonyParser,), {"parse_delta": None})) is None
