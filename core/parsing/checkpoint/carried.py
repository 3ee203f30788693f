"""What of a parser's state is carried, where less than all of it leads to the same output.

A parser that composes a reasoning and a tool parser keeps the whole text and
all token ids of the current phase for them. Most never look at them; others
only ask whether certain ids occurred; some read the text, but not what lies
behind them. This module says so, parser by parser: it never changes a parser,
it names values to save in the place of the real ones. A parser that is not
named here is carried whole.

Every rule here was read from the parser's source and holds for any output,
malformed ones too. ``tests/unit/checkpoint`` compares with uninterrupted runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from core.parsing.checkpoint.kinds import DECODED
from core.parsing.checkpoint.layout import Changes
from core.parsing.checkpoint.tool_text import TOOL_TEXT_RULES, required_calls

# Ids that are kept as they are at the end of a list: the parsers look back at single ids and at markers of a few.
_LAST_IDS = 8
# Where the composed parser's own state has nothing that will be read.
_NOTHING: dict[str, Any] = {"previous_text": "", "previous_token_ids": []}


def changes_of(parser: Any, request: Any) -> Changes:
    """The values to save in the place of real ones, for a parser that answers ``request``."""
    changes: Changes = {}
    _composed(changes, parser, request)
    for part in (parser._reasoning_parser, parser._tool_parser):
        _engine(changes, getattr(part, "_parser_engine", None), request)
    return changes


def _composed(changes: Changes, parser: Any, request: Any) -> None:
    state = parser._stream_state
    reasoning, tool = parser._reasoning_parser, parser._tool_parser
    if reasoning is not None and not state.reasoning_ended:
        rule = _rule_of(reasoning, _REASONING_RULES)
        if rule is not None:
            rule(changes, state, reasoning)
    elif tool is not None and state.reasoning_ended:
        _tool_phase(changes, parser, state, tool, request)
    elif not _has_base(parser, "KimiK3Parser"):
        # Only kimi_k3 reads the text when there is neither reasoning nor a tool parser left.
        changes[id(state)] = dict(_NOTHING)


def _tool_phase(changes: Changes, parser: Any, state: Any, tool: Any, request: Any) -> None:
    choice = request.tool_choice
    if tool.engine_based_streaming or (choice == "none" and not _has_base(parser, "KimiK3Parser")):
        changes[id(state)] = dict(_NOTHING)
    elif tool.supports_required_and_named and choice and choice not in ("none", "auto"):
        # Forced calls come as bare JSON, which vLLM reads without the parser.
        if choice == "required":
            changes[id(state)] = {"previous_text": required_calls(state.previous_text), "previous_token_ids": []}
        else:
            changes[id(state)] = dict(_NOTHING)
    else:
        changes[id(state)] = {"previous_token_ids": _tool_ids(tool, state.previous_token_ids)}
        rule = _rule_of(tool, TOOL_TEXT_RULES)
        if rule is not None:
            rule(changes, state, tool, request)


def _rule_of(part: Any, rules: dict[str, Any]) -> Any:
    for base in type(part).__mro__:
        if base.__name__ in rules:
            return rules[base.__name__]
    return None


def _has_base(part: Any, name: str) -> bool:
    return any(base.__name__ == name for base in type(part).__mro__)


# -- ids ------------------------------------------------------------------------------------------


def fewer_ids(ids: list[int], markers: Iterable[int | None]) -> list[int]:
    """``ids`` with each run of ids other than ``markers`` cut down to its last one, apart from the end.

    Whether, how often and in which order markers occur, what stands next to
    what, and the last ids stay the same.
    """
    if len(ids) <= 2 * _LAST_IDS:
        return ids
    wanted = set(markers)
    kept: list[int] = []
    skipped: int | None = None
    for token_id in ids[:-_LAST_IDS]:
        if token_id not in wanted:
            skipped = token_id
            continue
        if skipped is not None:
            kept.append(skipped)
            skipped = None
        kept.append(token_id)
    if skipped is not None:
        kept.append(skipped)
    return kept + ids[-_LAST_IDS:]


# The ids that tool parsers look for; the others that are known look at none.
_TOOL_MARKERS: dict[str, tuple[str, ...]] = {
    "DeepSeekV3ToolParser": ("tool_calls_start_token_id", "tool_call_start_token_id", "tool_call_end_token_id"),
    "DeepSeekV31ToolParser": ("tool_calls_start_token_id", "tool_call_start_token_id", "tool_call_end_token_id"),
    "Ernie45ToolParser": ("newline_token_id",),
    "HYV3ToolParser": ("tool_calls_start_token_id",),
    "HYV4ToolParser": ("_extractor.tool_calls_start_token_id",),
}
_TOOLS_WITHOUT_IDS = frozenset(
    {
        "ApertusToolParser",
        "DotsToolParser",
        "FunctionGemmaToolParser",
        "GigaChat3ToolParser",
        "Granite20bFCToolParser",
        "Granite4ToolParser",
        "Hermes2ProToolParser",
        "HunyuanA13BToolParser",
        "Internlm2ToolParser",
        "JambaToolParser",
        "K2HorizonToolParser",
        "KimiK3ToolParser",
        "Lfm2ToolParser",
        "Llama3JsonToolParser",
        "Llama4PythonicToolParser",
        "MiniCPM5XMLToolParser",
        "MuseToolParser",
        "Olmo3PythonicToolParser",
        "Phi4MiniJsonToolParser",
        "PoolsideV1ToolParser",
        "PythonicToolParser",
        "Step3ToolParser",
        "xLAMToolParser",
    }
)


def _tool_ids(tool: Any, ids: list[int]) -> list[int]:
    names = _rule_of(tool, _TOOL_MARKERS)
    if names is not None:
        markers = []
        for name in names:
            holder, _, attribute = name.rpartition(".")
            markers.append(getattr(getattr(tool, holder) if holder else tool, attribute))
        return fewer_ids(ids, markers)
    return [] if any(base.__name__ in _TOOLS_WITHOUT_IDS for base in type(tool).__mro__) else ids


# -- the reasoning phase --------------------------------------------------------------------------

_ReasoningRule = Callable[[Changes, Any, Any], None]


def _reads_nothing(changes: Changes, state: Any, _reasoning: Any) -> None:
    changes[id(state)] = dict(_NOTHING)


def _reads_text(changes: Changes, state: Any, _reasoning: Any) -> None:
    changes[id(state)] = {"previous_token_ids": []}


def _reads_markers(*names: str, text: bool = False) -> _ReasoningRule:
    """For parsers that look for the ids in the named attributes, and at the text or not at all."""

    def rule(changes: Changes, state: Any, reasoning: Any) -> None:
        ids = fewer_ids(state.previous_token_ids, _markers(reasoning, names))
        changes[id(state)] = {"previous_token_ids": ids} if text else {**_NOTHING, "previous_token_ids": ids}

    return rule


def _markers(part: Any, names: Sequence[str]) -> set[int | None]:
    found: set[int | None] = set()
    for name in names:
        value = getattr(part, name)
        found.update(value if isinstance(value, list | tuple) else (value,))
    return found


def _reads_wrapped(changes: Changes, state: Any, reasoning: Any) -> None:
    inner = reasoning._parser
    rule = _rule_of(inner, _REASONING_RULES)
    if rule is not None:
        rule(changes, state, inner)


def _reads_extracted(changes: Changes, state: Any, reasoning: Any) -> None:
    _start_and_end(changes, state, reasoning._extractor)


def _reads_all_ids(changes: Changes, state: Any, reasoning: Any) -> None:
    # The parser decodes the ids again at every step, and reads the text too: mostly they say the same.
    if state.previous_text and reasoning.model_tokenizer.decode(state.previous_token_ids) == state.previous_text:
        changes[id(state)] = {"previous_text": DECODED}


_start_and_end = _reads_markers("start_token_id", "end_token_id")

_REASONING_RULES: dict[str, _ReasoningRule] = {
    "ParserEngineReasoningAdapter": _reads_nothing,
    "HunyuanA13BReasoningParser": _reads_nothing,
    "IdentityReasoningParser": _reads_nothing,
    "K2HorizonReasoningParser": _reads_nothing,
    "BaseThinkingReasoningParser": _start_and_end,
    "MiniMaxM2AppendThinkReasoningParser": _start_and_end,
    "Step3ReasoningParser": _reads_markers("think_end_token_id"),
    "Olmo3ReasoningParser": _reads_markers("think_end_first_token_ids", "think_end_rest_token_ids"),
    "MiniMaxM3ReasoningParser": _reads_markers("_start_token_ids", "_end_token_ids", text=True),
    "KimiK3ReasoningParser": _reads_markers("_think_open_ids", "_think_close_ids", text=True),
    "GraniteReasoningParser": _reads_text,
    "DeepSeekV3ReasoningParser": _reads_wrapped,
    "HYV4ReasoningParser": _reads_extracted,
    "MuseReasoningParser": _reads_all_ids,
}


# -- engines --------------------------------------------------------------------------------------


def _engine(changes: Changes, engine: Any, request: Any) -> None:
    if engine is None:
        return
    if _has_base(engine, "Gemma4Parser"):
        if engine._prefix_stripped:
            changes[id(engine)] = {"_reasoning_text": ""}
    elif _has_base(engine, "NemotronV3Parser") and engine._streamed_reasoning:
        # Read at the end of the stream, joined, when the request asks for it.
        forced = engine._should_force_content(request)
        changes[id(engine)] = {"_streamed_reasoning": ["".join(engine._streamed_reasoning)] if forced else []}
    if engine._suppress_tool_calls and engine._engine.tool_index > 0:
        # Calls that are not wanted are counted and nothing more, so that their number is not bounded by slots.
        changes[id(engine._engine)] = {"tool_index": 0}
