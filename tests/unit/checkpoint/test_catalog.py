"""The catalog against vLLM: its source, and what parsers really change."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest

from core.parsing.checkpoint import CheckpointRefused, check_supported, snapshot
from core.parsing.checkpoint.catalog import part_of
from core.parsing.checkpoint.layout import layout_of, walk
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
# Kept by a special part (``slots``, ``harmony``, ``response_template``).
SPECIAL = {
    "HarmonyParser": {"_parser", "_num_processed_messages", "_current_message_tokens"},
    "HunyuanA13BReasoningParser": {"expected_sequence", "expected_sequence_side"},
    "ParserEngine": {"_tool_slots"},
    "ResponseParser": {"_body", "_buffer", "_captures", "_current", "_finalized", "_opened", "_pos", "_prefix_len"},
    "ResponseTemplateParser": {"_prompt_token_ids", "_prefix", "_stream"},
    "TokenIDScanner": {"_deferred_terminals"},
    "ToolCallSlot": {
        "_args_joined",
        "_args_parts",
        "_streamed_joined",
        "_streamed_parts",
        "extend_open_value",
        "id",
        "name",
        "name_sent",
        "open_value_streams",
        "streamed_json",
        "string_keys",
    },
    "_ResponseStream": {"_finalized", "_next_tool_index", "_open_region"},
}
# Not carried, each for its reason.
LEFT_OUT = {
    # Refused.
    "CohereCommandParser": {"_pending_tool_ids", "last_unary_citations"},
    "MistralParser": {
        "current_tool_id",
        "current_tool_mistral_id",
        "current_tool_name",
        "current_tool_string_arguments",
        "parse_coro",
        "prev_tool_call_arr",
        "starting_new_tool",
        "streamed_args_for_tool",
        "streaming_state",
        "tool_call_started",
    },
    # Set again from the request by every step.
    "ParserEngine": {"_tools"},
    # Written and never read.
    "Granite4ToolParser": {"start_in_tc"},
    # Set by and for counting, which no stream does.
    "MuseReasoningParser": {"_marker_ids"},
    "ParserEngineReasoningAdapter": {"_counting_parser_engine"},
    "ResponseTemplateParser": {"_reasoning_counter"},
    "_ReasoningTokenCounter": {"open", "spans", "token_ends", "token_ids"},
    # A memo.
    "TokenIDScanner": {"_token_text_cache"},
    # What the final message of a complete output would be.
    "ResponseParser": {"_malformed_fields", "_output"},
    # Another name for an attribute, for the lists of another object.
    "HYV4ToolParser": {"current_tool_id", "prev_tool_call_arr", "streamed_args_for_tool"},
    "Lfm2ToolParser": {"current_tool_index"},
    "Llama4PythonicToolParser": {"current_tool_index"},
    "Olmo3PythonicToolParser": {"current_tool_index"},
    "PythonicToolParser": {"current_tool_index"},
    # Properties that set an attribute of the inner engine.
    "ParserEngine.skip": {"skip_tool_parsing", "skip_reasoning_parsing"},
}


def known(change: Change) -> bool:
    holder = change.name if change.holder == "self" else OTHER_HOLDERS.get(change.holder, "")
    if change.attribute in SPECIAL.get(holder, ()) or change.attribute in LEFT_OUT.get(holder, ()):
        return True
    if holder == "ParserEngine" and change.attribute in LEFT_OUT["ParserEngine.skip"]:
        return True
    return change.attribute in attributes_of(change, holder)


def attributes_of(change: Change, holder: str) -> set[str]:
    modules = {
        "ParserEngine": "vllm.parser.engine.parser_engine",
        "StreamState": "vllm.parser.abstract_parser",
        "StreamingParserEngine": "vllm.parser.engine.streaming_parser_engine",
    }
    module = change.module if change.holder == "self" else modules.get(holder, change.module)
    cls = getattr(importlib.import_module(module), holder, None)
    if cls is None:
        return set()
    try:
        layout = layout_of(cls)
    except CheckpointRefused:
        return set()
    return {*layout.names, *(name for name, _ in layout.late)}


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


# Objects that a parser builds when they are first needed, memos, and what a special part takes care of.
UNLISTED = frozenset({"vocab", "_token_text_cache", "_tools"}).union(
    *SPECIAL.values(), *(names for name, names in LEFT_OUT.items() if name != "MistralParser")
)


@pytest.mark.parametrize("pair", PAIRS)
def test_nothing_but_the_listed_attributes_changes(deployments: Deployments, pair: Pair) -> None:
    rng = random.Random(11)
    for _ in range(3):
        setup, stream, prompt = deployments.stream(pair, rng, mutated=rng.random() < 0.5)
        fresh = setup.processor()
        live = setup.processor()
        for chunk in stream:
            live.step(chunk.text, list(chunk.ids), chunk.finish_reason, prompt)
        for (part, layout), (pristine, _) in zip(walk(live.parser), walk(fresh.parser), strict=True):
            listed = {*layout.names, *layout.children, *(name for name, _ in layout.late)} | UNLISTED
            now = {name: outline(value) for name, value in vars(part).items() if name not in listed}
            then = {name: outline(value) for name, value in vars(pristine).items() if name not in listed}
            assert now == then, type(part).__name__


def test_parsers_with_state_in_compiled_code_are_refused() -> None:
    # Its module cannot be imported without a package that is not installed: parts are found by name.
    stand_in = type("CohereCommandParser", (), {"__module__": "vllm.parser.cohere_command"})
    (refused,) = layout_of(stand_in).refusals
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
    assert layout_of(composed).names == layout_of(HarmonyParser).names
    assert part_of(type("Other", (HarmonyParser,), {"parse_delta": None})) is None
