"""The table of the installed vLLM against its source, and against what parsers really change."""

from __future__ import annotations

import ast
import importlib
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigurationError
from core.parsing import checkpoint
from core.parsing.checkpoint import CheckpointRefused, Layouts
from core.parsing.checkpoint.kinds import COUNT
from core.parsing.checkpoint.part import Part, united
from core.upstream import v0_33
from core.upstream.tables import table_of
from core.upstream.version import vllm_version
from tests.checkpoint.carrying import LAYOUTS, check_supported, snapshot
from tests.checkpoint.setups import PAIRS, REPLAYED, Deployments, Pair
from tests.checkpoint.streams import Setup, model_config, parser_class, request
from tests.checkpoint.vllm_source import Change, changes

TABLE = table_of(vllm_version())
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
        "existing_call",
        "existing_call.function",
        "fn",
        "function",
        "last_tc.function",
        "message",
        "msg",
        "name_delta",
        "request",
        "result",
        # The XML parser of a parser that is refused for it.
        "self.parser",
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


@pytest.mark.parametrize("tool_parser", sorted(REPLAYED))
def test_parsers_whose_state_is_no_plain_data_are_refused(deployments: Deployments, tool_parser: str) -> None:
    processor = deployments.setup((tool_parser, None)).processor()
    with pytest.raises(CheckpointRefused, match=rf"the {tool_parser} tool parser keeps its state in"):
        check_supported(processor.parser)


def test_a_composed_class_of_a_deployment_adds_nothing() -> None:
    from vllm.parser.harmony import HarmonyParser

    composed = type("HarmonyParser", (HarmonyParser,), {"reasoning_parser_cls": None, "tool_parser_cls": None})
    assert LAYOUTS.of(composed).names == LAYOUTS.of(HarmonyParser).names
    assert TABLE.part_of(type("Other", (HarmonyParser,), {"parse_delta": None})) is None


# -- the table as data of a version ---------------------------------------------------------------

# The package that the parsers of Cohere Command are based on is not installed: their modules cannot be imported.
NOT_INSTALLED = frozenset({"cohere_command", "cohere_command_reasoning_parser", "cohere_command_tool_parser"})


def test_every_class_of_the_table_is_one_of_vllm() -> None:
    # Adapters are made for an engine that is asked for: those that the table knows are those of its engines.
    adapters = "vllm.parser.engine.adapters."
    engines = {name.rpartition(".")[2] for name in TABLE.parts if name.startswith("vllm.parser.")}
    for name in TABLE.parts:
        if name.startswith(adapters):
            engine = name.removeprefix(adapters).removesuffix("Adapter").removesuffix("Reasoning").removesuffix("Tool")
            assert engine in engines, name
            continue
        module, _, attribute = name.rpartition(".")
        if module.rpartition(".")[2] not in NOT_INSTALLED:
            assert isinstance(getattr(importlib.import_module(module), attribute), type), name


def test_the_table_is_data() -> None:
    # What needs vLLM is behind the door: a version's table can be read, and its neighbour's made, without it.
    for path in sorted(Path(v0_33.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert not any(alias.name.partition(".")[0] == "vllm" for alias in node.names), path.name
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] != "vllm", path.name


def test_a_neighbouring_version_is_a_change_of_the_table(deployments: Deployments) -> None:
    hermes = "vllm.tool_parsers.hermes_tool_parser.Hermes2ProToolParser"
    parser = deployments.setup(("hermes", None)).processor().parser
    layouts = Layouts(TABLE.changed({hermes: Part({"scan_position": COUNT})}))
    assert layouts.of(type(parser._tool_parser)).names[-1] == "scan_position"
    # The table that it is based on stays as it was.
    assert "scan_position" not in LAYOUTS.of(type(parser._tool_parser)).names
    with pytest.raises(CheckpointRefused, match="Hermes2ProToolParser is not a known part"):
        checkpoint.check_supported(parser, Layouts(TABLE.changed({}, gone=[hermes])))
    with pytest.raises(KeyError):
        TABLE.changed({}, gone=["vllm.no.Such"])


def test_a_class_has_one_place() -> None:
    with pytest.raises(ValueError, match="known twice: a"):
        united({"a": Part()}, {"b": Part(), "a": Part()})


def test_a_version_without_a_table_is_refused() -> None:
    assert table_of("0.33.0") is v0_33.TABLE
    with pytest.raises(ConfigurationError, match=r"parsers of vLLM 0\.12\.0, only of those of 0\.33\.0, 0\.32\.0"):
        table_of("0.12.0")
