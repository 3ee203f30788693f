"""The engine that most newer parsers are made of: its adapters, state machine, lexer and scanner."""

from __future__ import annotations

from typing import Any

from core.json import JsonValue
from core.parsing.checkpoint.errors import Misfit
from core.parsing.checkpoint.kinds import BOOL, COUNT, COUNTS, HELD, INDEX, MARK, TEXT, enumeration
from core.parsing.checkpoint.part import READS_NOTHING, Changes, Part, Parts, Special
from core.upstream.parser_state import engine_states, new_terminal
from core.upstream.v0_33.engine_slots import SLOT_PARTS, slots

_ADAPTERS = "vllm.parser.engine.adapters"


def adapters(engine: str) -> Parts:
    """The two adapters that vLLM makes for the engine class ``engine``: they add no state of their own."""
    return {f"{_ADAPTERS}.{engine}ReasoningAdapter": Part(), f"{_ADAPTERS}.{engine}ToolAdapter": Part()}


def _carried(changes: Changes, engine: Any, _request: Any, _reads_of: Any) -> None:
    if engine._suppress_tool_calls and engine._engine.tool_index > 0:
        # Calls that are not wanted are counted and nothing more, so that their number is not bounded by slots.
        changes[id(engine._engine)] = {"tool_index": 0}


# -- the history count ----------------------------------------------------------------------------


def _save_history(engine: Any, _request: Any) -> JsonValue:
    # An engine has a stream state of its own and uses nothing else of it.
    return COUNT.save(engine._stream_state.history_tool_call_cnt)


def _load_history(engine: Any, data: JsonValue, _request: Any) -> None:
    engine._stream_state.history_tool_call_cnt = COUNT.load(data)


# -- terminals that the scanner holds back --------------------------------------------------------


def _save_terminals(scanner: Any, _request: Any) -> JsonValue:
    return [[TEXT.save(t.terminal), COUNT.save(t.token_id), TEXT.save(t.text)] for t in scanner._deferred_terminals]


def _load_terminals(scanner: Any, data: JsonValue, _request: Any) -> None:
    if type(data) is not list:
        raise Misfit("must be a list of terminals")
    for item in data:
        if type(item) is not list or len(item) != 3:
            raise Misfit("must be a list of terminals")
        terminal, token_id, text = TEXT.load(item[0]), COUNT.load(item[1]), TEXT.load(item[2])
        scanner._deferred_terminals.append(new_terminal(terminal, token_id, text))


PARTS: Parts = {
    f"{_ADAPTERS}.ParserEngineReasoningAdapter": Part(
        {"_streaming_count_valid": BOOL},
        children=("_parser_engine",),
        reads=READS_NOTHING,
        left_out={"_counting_parser_engine": "made by and for counting, which no stream does"},
    ),
    f"{_ADAPTERS}.ParserEngineToolAdapter": Part(children=("_parser_engine",), alone=True),
    "vllm.parser.engine.parser_engine.ParserEngine": Part(
        {
            "_streaming_initialized": BOOL,
            "_prompt_closes_reasoning": BOOL,
            "_reasoning_ended": BOOL,
            "_deferred_content": TEXT,
            "_deferred_reasoning": TEXT,
            "_content_has_nonws": BOOL,
            "_prompt_streaming_prepared": BOOL,
            "_suppress_tool_calls": BOOL,
        },
        children=("_engine",),
        specials={"history": Special(_save_history, _load_history), "slots": slots()},
        alone=True,
        kept=("_tool_slots",),
        filled=("_tool_slots",),
        left_out={
            "_tools": "set again from the request by every step",
            "skip_tool_parsing": "a property that sets an attribute of the inner engine",
            "skip_reasoning_parsing": "a property that sets an attribute of the inner engine",
        },
        copied=("_stream_state",),
        fewer=_carried,
    ),
    "vllm.parser.engine.streaming_parser_engine.StreamingParserEngine": Part(
        {
            "state": enumeration(engine_states),
            "tool_index": INDEX,
            "skip_tool_parsing": BOOL,
            "skip_reasoning_parsing": BOOL,
            "_ever_had_token_ids": BOOL,
            "_reasoning_token_count": COUNT,
            "_message_header_buffer": TEXT,
            "_message_header_token_count": COUNT,
            "_in_skipped_tool_span": BOOL,
            "_args_buffer": HELD,
            "_args_safe_end": COUNT,
            "_args_brace_depth": COUNT,
            "_args_in_string": BOOL,
            "_args_escape_next": BOOL,
            "_array_started": BOOL,
            "_array_in_element": BOOL,
        },
        children=("_scanner", "_lexer"),
    ),
    "vllm.parser.engine.incremental_lexer.IncrementalLexer": Part({"buffer": MARK, "_token_counts": COUNTS}),
    "vllm.parser.engine.token_id_scanner.TokenIDScanner": Part(
        {
            "_deferred_prefix_token_counts": COUNTS,
            "_deferred_trailing_token_count": COUNT,
            "_deferred_post_text": TEXT,
        },
        specials={"terminals": Special(_save_terminals, _load_terminals)},
        kept=("_deferred_terminals",),
        left_out={"_token_text_cache": "a memo"},
        filled=("_deferred_terminals", "_token_text_cache"),
    ),
    **SLOT_PARTS,
}
