"""The catalog: every class of vLLM 0.33.0 that a parser is made of, with the attributes that are its state.

Written from vLLM's source. ``tests/unit/checkpoint`` reads that source again
and fails when a class, or an attribute that changes while a stream is parsed,
is missing here. A class that is not listed is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core.json import JsonValue
from core.parsing.checkpoint import harmony, response_template, slots
from core.parsing.checkpoint.errors import Misfit
from core.parsing.checkpoint.kinds import (
    BOOL,
    COUNT,
    COUNTS,
    DECODABLE_TEXT,
    HELD,
    ID_TUPLE,
    IDS,
    INDEX,
    JSON,
    JSON_DICT,
    MARK,
    TEXT,
    TEXT_SET,
    TEXTS,
    enumeration,
    list_of,
    one_of,
    optional,
    record,
)
from core.parsing.checkpoint.layout import Part, Special
from core.parsing.checkpoint.stateless import WITHOUT_STATE


def part_of(cls: type) -> Part | None:
    """What a class adds to the state of its objects; None when it is not known."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    part = _PARTS.get(name)
    if part is not None:
        return part
    make = _MADE_PARTS.get(name)
    if make is not None:
        return make()
    return Part() if name in WITHOUT_STATE or _COMPOSITION.issuperset(vars(cls)) else None


# A class that sets nothing but these is a choice of parsers, made for one deployment.
_COMPOSITION = frozenset(
    {
        "__doc__",
        "__firstlineno__",
        "__module__",
        "__static_attributes__",
        "_enable_auto_tools",
        "reasoning_parser_cls",
        "tool_parser_cls",
        "tool_strict_level",
    }
)


# -- the history count of an engine ---------------------------------------------------------------


def _save_history(engine: Any, _request: Any) -> JsonValue:
    # An engine has a stream state of its own and uses nothing else of it.
    return COUNT.save(engine._stream_state.history_tool_call_cnt)


def _load_history(engine: Any, data: JsonValue, _request: Any) -> None:
    engine._stream_state.history_tool_call_cnt = COUNT.load(data)


# -- what cannot be carried -----------------------------------------------------------------------


def _refuse_cohere(_parser: Any) -> str | None:
    return "the cohere_command parsers keep their state in compiled code"


def _refuse_old_mistral(engine: Any) -> str | None:
    return "the mistral parser of vocabularies before v11 keeps a running coroutine" if engine._is_pre_v11 else None


# -- sequences that one parser points to ----------------------------------------------------------

# The reasoning parser of hunyuan_a13b compares tokens with one of these lists of its own.
_SEQUENCES = (
    "think_start_ids",
    "think_start_ids_fast",
    "response_start_ids",
    "response_start_ids_fast",
    "response_end_ids",
)


def _save_sequences(parser: Any, _request: Any) -> JsonValue:
    saved = []
    for name in ("expected_sequence", "expected_sequence_side"):
        sequence = getattr(parser, name)
        found = [i for i, other in enumerate(_SEQUENCES) if getattr(parser, other) is sequence]
        if not found:
            raise Misfit("expects an unknown sequence")
        saved.append(found[0])
    return saved


def _load_sequences(parser: Any, data: JsonValue, _request: Any) -> None:
    kind = one_of(_SEQUENCES)
    if type(data) is not list or len(data) != 2:
        raise Misfit("must be two sequences")
    parser.expected_sequence = getattr(parser, kind.load(data[0]))
    parser.expected_sequence_side = getattr(parser, kind.load(data[1]))


_PROGRESS = record(
    current_tool_index=INDEX,
    tool_ids=list_of(optional(TEXT)),
    sent_tools=list_of(record(sent_name=BOOL, sent_arguments_prefix=BOOL, sent_arguments=TEXT)),
)
_CALLS = {"prev_tool_call_arr": JSON, "streamed_args_for_tool": TEXTS, "current_tool_id": INDEX}
_HY_ARGUMENTS = {
    "_buffer": TEXT,
    "_streaming_tool_name": optional(TEXT),
    "_completed_args": JSON_DICT,
    "_current_arg_key": optional(TEXT),
    "_current_arg_is_string": BOOL,
    "_streamed_json_len": COUNT,
}
_LAST_IDS = {
    "_last_streaming_delta_token_ids": optional(ID_TUPLE),
    "_last_streaming_content_token_ids": optional(IDS),
}

_PARTS: Mapping[str, Part] = {
    "vllm.parser.abstract_parser.StreamState": Part(
        {
            "reasoning_ended": BOOL,
            "tool_call_text_started": BOOL,
            "prompt_reasoning_checked": BOOL,
            "previous_text": DECODABLE_TEXT,
            "previous_token_ids": IDS,
            "history_tool_call_cnt": COUNT,
            "history_tool_call_cnt_initialized": BOOL,
            "function_name_returned": BOOL,
        }
    ),
    "vllm.parser.abstract_parser.Parser": Part(children=("_stream_state", "_reasoning_parser", "_tool_parser")),
    # -- parsers of one family ----------------------------------------------------------------------
    "vllm.parser.cohere_command.CohereCommandParser": Part(refused=_refuse_cohere),
    "vllm.parser.harmony.HarmonyParser": Part(
        {"_next_tool_call_index": INDEX, "_num_counted_tokens": COUNT, "_num_reasoning_tokens": COUNT},
        specials=(harmony.MACHINE,),
    ),
    "vllm.parser.response_template.ResponseTemplateParser": Part(specials=(response_template.STREAM,)),
    "vllm.parser.minicpmv.MiniCPMVUnifiedParser": Part(children=("_output_normalizer",)),
    "vllm.parser.minicpmv.MiniCPMVOutputNormalizer": Part(children=("_reasoning", "_content")),
    "vllm.parser.minicpmv.EscapedNewlineNormalizer": Part({"_closing_marker": optional(MARK), "_pending": HELD}),
    # -- the engine ---------------------------------------------------------------------------------
    "vllm.parser.engine.adapters.ParserEngineReasoningAdapter": Part(
        {"_streaming_count_valid": BOOL}, children=("_parser_engine",)
    ),
    "vllm.parser.engine.adapters.ParserEngineToolAdapter": Part(children=("_parser_engine",), alone=True),
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
        specials=(Special(_save_history, _load_history), slots.SLOTS),
        alone=True,
    ),
    "vllm.parser.engine.incremental_lexer.IncrementalLexer": Part({"buffer": MARK, "_token_counts": COUNTS}),
    "vllm.parser.engine.token_id_scanner.TokenIDScanner": Part(
        {
            "_deferred_prefix_token_counts": COUNTS,
            "_deferred_trailing_token_count": COUNT,
            "_deferred_post_text": TEXT,
        },
        specials=(slots.DEFERRED_TERMINALS,),
    ),
    "vllm.parser.gemma4.Gemma4Parser": Part(
        {"_reasoning_text": TEXT, "_prefix_stripped": BOOL, "_is_first_feed": BOOL}
    ),
    "vllm.parser.granite_thinking.GraniteThinkingParser": Part({"_content_started": BOOL}),
    "vllm.parser.mistral.MistralParser": Part(refused=_refuse_old_mistral),
    "vllm.parser.nemotron_v3.NemotronV3Parser": Part({"_streamed_reasoning": TEXTS}),
    # -- reasoning parsers --------------------------------------------------------------------------
    "vllm.reasoning.deepseek_v3_reasoning_parser.DeepSeekV3ReasoningParser": Part(children=("_parser",)),
    "vllm.reasoning.hunyuan_a13b_reasoning_parser.HunyuanA13BReasoningParser": Part(
        {
            "current_state": one_of(("idle", "think", "response")),
            "sequence_index": COUNT,
            "token_buffer": IDS,
            "text_buffer": TEXT,
        },
        specials=(Special(_save_sequences, _load_sequences),),
    ),
    "vllm.reasoning.hy_v3_reasoning_parser.HYV3ReasoningParser": Part(children=("_identity_parser",)),
    "vllm.reasoning.hy_v4_reasoning_parser.HYV4ReasoningParser": Part(children=("_extractor",)),
    "vllm.reasoning.k2_horizon_reasoning_parser.K2HorizonReasoningParser": Part(
        {"_stream_buffer": TEXT, "_stream_at_start": BOOL, "_stream_finished": BOOL}
    ),
    "vllm.reasoning.kimi_k3_reasoning_parser.KimiK3ReasoningParser": Part(_LAST_IDS),
    "vllm.reasoning.minimax_m3_reasoning_parser.MiniMaxM3ReasoningParser": Part(
        {
            "_reasoning_ended_streaming": BOOL,
            "_reasoning_active_streaming": BOOL,
            "_pending_marker_streaming": BOOL,
            **_LAST_IDS,
        }
    ),
    "vllm.reasoning.muse_reasoning_parser.MuseReasoningParser": Part(
        {"_emitted_reasoning": TEXT, "_emitted_content": TEXT, "_tool_handoff_done": BOOL}
    ),
    "vllm.reasoning.olmo3_reasoning_parser.Olmo3ReasoningParser": Part(children=("buffer",)),
    # -- tool parsers -------------------------------------------------------------------------------
    "vllm.tool_parsers.abstract_tool_parser.ToolParser": Part({**_CALLS, "current_tool_name_sent": BOOL}),
    "vllm.tool_parsers.apertus_tool_parser.ApertusToolParser": Part({"buffered_delta_text": TEXT}),
    "vllm.tool_parsers.dots_tool_parser.DotsToolParser": Part({"_buffer": TEXT}),
    "vllm.tool_parsers.ernie45_tool_parser.Ernie45ToolParser": Part({"_buffer": TEXT}),
    "vllm.tool_parsers.functiongemma_tool_parser.FunctionGemmaToolParser": Part({"buffered_delta_text": TEXT}),
    "vllm.tool_parsers.gigachat3_tool_parser.GigaChat3ToolParser": Part(
        {"tool_started": BOOL, "tool_name_sent": BOOL, "tool_id": optional(TEXT), "end_content": BOOL}
    ),
    "vllm.tool_parsers.granite4_tool_parser.Granite4ToolParser": Part({"look_ahead": TEXT, "in_tc": BOOL}),
    "vllm.tool_parsers.hermes_tool_parser.Hermes2ProToolParser": Part({"_sent_content_idx": COUNT}),
    "vllm.tool_parsers.hunyuan_a13b_tool_parser.HunyuanA13BToolParser": Part(
        {"streamed_args": TEXTS, "current_tools_sent": list_of(BOOL), "streaming_state": _PROGRESS}
    ),
    "vllm.tool_parsers.hy_v3_tool_parser.HYV3ToolParser": Part(_HY_ARGUMENTS, late={"_current_tool_call_id": TEXT}),
    # Its own lists are the extractor's, handed over again by every call.
    "vllm.tool_parsers.hy_v4_tool_parser.HYV4ToolParser": Part(children=("_extractor",), alone=True),
    "vllm.tool_parsers.hy_v4_tool_parser.HYV4ToolExtractor": Part({**_CALLS, **_HY_ARGUMENTS}),
    "vllm.tool_parsers.internlm2_tool_parser.Internlm2ToolParser": Part({"position": COUNT}),
    "vllm.tool_parsers.k2_horizon_tool_parser.K2HorizonToolParser": Part(
        {
            "_pending_content": TEXT,
            "_content_seen": BOOL,
            "_stream_text": TEXT,
            "_stream_resolved": BOOL,
            "_stream_cursor": COUNT,
            "_stream_group_start": optional(COUNT),
        }
    ),
    "vllm.tool_parsers.kimi_k3_tool_parser.KimiK3ToolParser": Part(
        {"_sent_content_idx": COUNT, "_sent_tool_call_count": COUNT}
    ),
    "vllm.tool_parsers.lfm2_tool_parser.Lfm2ToolParser": Part({"_trailing_emitted": TEXT}),
    "vllm.tool_parsers.minicpm5xml_tool_parser.MiniCPM5XMLToolParser": Part({"_processed_len": COUNT}),
    "vllm.tool_parsers.muse_tool_parser.MuseToolParser": Part(
        {"_streamed_content_len": COUNT, "_streamed_reasoning_len": COUNT, "_emitted_tool_calls": COUNT}
    ),
    "vllm.tool_parsers.poolside_v1_tool_parser.PoolsideV1ToolParser": Part(
        {
            "_buffer": TEXT,
            "_in_tool_call": BOOL,
            "_current_tool_name": optional(TEXT),
            "_pending_key": optional(TEXT),
            "_streaming_string_value": BOOL,
            "_tool_call_ids": TEXTS,
            "_args_started": list_of(BOOL),
            "_args_closed": list_of(BOOL),
            "_seen_keys": list_of(TEXT_SET),
        }
    ),
    "vllm.tool_parsers.step3_tool_parser.Step3ToolParser": Part(
        {"position": COUNT, "tool_block_started": BOOL, "tool_block_finished": BOOL}
    ),
    "vllm.tool_parsers.xlam_tool_parser.xLAMToolParser": Part(
        {
            "streamed_args": TEXTS,
            "current_tools_sent": list_of(BOOL),
            "streaming_state": _PROGRESS,
        }
    ),
}


def _streaming_engine() -> Part:
    from vllm.parser.engine.parser_engine_config import ParserState

    return Part(
        {
            "state": enumeration(ParserState),
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
    )


def _olmo3_buffer() -> Part:
    from vllm.reasoning.olmo3_reasoning_parser import Olmo3ReasoningState

    return Part({"buffer": TEXT, "state": enumeration(Olmo3ReasoningState)})


# Parts whose kinds need vLLM's own classes, which are not imported before a parser is.
_MADE_PARTS: Mapping[str, Callable[[], Part]] = {
    "vllm.parser.engine.streaming_parser_engine.StreamingParserEngine": _streaming_engine,
    "vllm.reasoning.olmo3_reasoning_parser.Olmo3ReasoningBuffer": _olmo3_buffer,
}
