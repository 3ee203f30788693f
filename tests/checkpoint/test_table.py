"""The table of the installed vLLM against its source, and against what parsers really change."""

from __future__ import annotations

import ast
import random
from dataclasses import replace
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
from tests.checkpoint.missing import attributes_that_are_gone, classes_that_are_gone, lines, unknown_changes
from tests.checkpoint.setups import PAIRS, REPLAYED, Deployments, Pair, healthy
from tests.checkpoint.streams import Setup, model_config, parser_class, request
from tests.checkpoint.vllm_source import changes

TABLE = table_of(vllm_version())


def test_every_attribute_that_vllm_changes_is_accounted_for() -> None:
    assert unknown_changes(TABLE) == []


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

        def run() -> tuple[Any, Any]:
            setup, stream, prompt = deployments.stream(pair, rng, mutated=rng.random() < 0.5)
            fresh, live = setup.processor(), setup.processor()
            for chunk in stream:
                live.step(chunk.text, list(chunk.ids), chunk.finish_reason, prompt)
            return fresh, live

        fresh, live = healthy(run)
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


def test_every_class_of_the_table_is_one_of_vllm() -> None:
    assert classes_that_are_gone(TABLE) == []


def test_every_attribute_of_the_table_is_one_of_vllm() -> None:
    assert attributes_that_are_gone(TABLE) == {}


def test_what_a_new_version_wants_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of another version, as one begins with it: a class too many, one too few, an attribute too many."""
    hermes, engine = "vllm.tool_parsers.hermes_tool_parser.Hermes2ProToolParser", "vllm.parser.engine.parser_engine"
    part = TABLE.parts[f"{engine}.ParserEngine"]
    more = replace(part, left_out={**part.left_out, "_no_such": "refused"})
    other = TABLE.changed({"vllm.no.Such": Part(), f"{engine}.ParserEngine": more}, gone=[hermes])
    assert classes_that_are_gone(other) == ["vllm.no.Such"]
    assert attributes_that_are_gone(other) == {f"{engine}.ParserEngine": ["_no_such"]}
    unknown = unknown_changes(other)
    assert unknown
    assert all(change.startswith(f"{hermes}.") for change in unknown)
    assert any(change.startswith(f"{hermes}._sent_content_idx (") for change in unknown)
    print(*lines(other), sep="\n")
    told = capsys.readouterr().out
    assert "gone: vllm.no.Such" in told
    assert f"{engine}.ParserEngine: without('_no_such')" in told
    assert "_sent_content_idx (" in told
    assert told.count("and the table does not say it") == 1
    assert lines(TABLE) == ["nothing is missing"]


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
