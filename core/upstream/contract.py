"""What this project uses of vLLM's code, and where its versions differ in that, as data.

The build of a slice is tried against it (``infra.slice``), so that a definition
that is gone, or is called otherwise, is told then and not by a request. Imports no vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Use:
    """A definition of vLLM, ``module:name`` or ``module:name.attribute``, and how it is used.

    ``given`` counts the positional arguments of a call, ``named`` are its keywords; None and empty: it is not called.
    ``attributes`` are read of it, or of its instances, where it is a class.
    """

    name: str
    given: int | None = None
    named: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


_CHAT = "vllm.entrypoints.openai.chat_completion"
_ENGINE = "vllm.parser.engine"
_HARMONY = "vllm.entrypoints.openai.parser.harmony_utils"
_RESPONSES = "vllm.entrypoints.openai.responses"
_TEMPLATE = "vllm._slice.chat_template"

USES = (
    Use(
        "vllm.parser:ParserManager.get_parser",
        0,
        ("tool_parser_name", "reasoning_parser_name", "enable_auto_tools", "model_name", "is_harmony", "tokenizer",
            "tool_strict_level"),
    ),
    Use("vllm.tool_parsers:ToolParserManager.list_registered"),
    Use("vllm.reasoning:ReasoningParserManager.list_registered"),
    Use("vllm.entrypoints.openai.responses.utils:should_continue_final_message", 1),
    Use(
        "vllm.parser.abstract_parser:Parser",
        attributes=("parse", "parse_delta", "reasoning_parser_cls", "tool_parser_cls"),
    ),
    Use("vllm.parser.abstract_parser:Parser.adjust_request", 1, ("request",)),
    Use("vllm.parser.abstract_parser:Parser.always_adjust_request"),
    Use("vllm.parser.abstract_parser:Parser.count_reasoning_tokens", 2),
    Use("vllm.parser.abstract_parser:Parser.set_prompt_token_ids", 2),
    Use("vllm.parser.abstract_parser:DelegatingParser", 2, ("chat_template_kwargs", "model_config")),
    Use("vllm.parser.abstract_parser:DelegatingParser.parse", 3, ("enable_auto_tools", "model_output_token_ids")),
    Use(
        "vllm.parser.abstract_parser:DelegatingParser.parse_delta",
        1,
        ("delta_text", "delta_token_ids", "request", "prompt_token_ids", "finished"),
    ),
    Use(
        "vllm.parser.harmony:HarmonyParser",
        2,
        ("chat_template_kwargs", "model_config"),
        attributes=("_normalize_recipient", "reasoning_parser_cls", "tool_parser_cls", "tool_strict_level"),
    ),
    Use(f"{_CHAT}.message_assembly:assemble_chat_message_fields", 4, ("enable_auto_tools", "parser_cls")),
    Use(f"{_CHAT}.stream_processor:ChatStreamProcessor", 2, ("enable_auto_tools", "parser_cls"), attributes=("step",)),
    Use(f"{_CHAT}.protocol:ChatCompletionRequest.build_chat_params", 3, ("reasoning_effort_map",)),
    Use(f"{_CHAT}.protocol:ChatCompletionRequest.build_tok_params", 2),
    Use(f"{_CHAT}.protocol:ChatCompletionRequest.to_sampling_params", 3),
    Use("vllm.entrypoints.openai.completion.protocol:CompletionRequest.build_tok_params", 2),
    Use("vllm.entrypoints.openai.completion.protocol:CompletionRequest.to_sampling_params", 3),
    Use("vllm.entrypoints.serve.tokenize.protocol:TokenizeRequest"),
    Use("vllm.entrypoints.serve.tokenize.protocol:TokenizeChatRequest.build_chat_params", 3),
    Use("vllm.entrypoints.serve.tokenize.protocol:TokenizeCompletionRequest.build_tok_params", 2),
    Use("vllm.entrypoints.serve.utils.tool_calls_utils:resolve_finish_reason", 3),
    Use(f"{_HARMONY}:build_harmony_preamble", 0, ("instructions", "tools", "reasoning_effort", "with_custom_tools")),
    Use(f"{_HARMONY}:extract_instructions_from_messages", 1),
    Use(f"{_HARMONY}:get_encoding", 0),
    Use(f"{_HARMONY}:parse_chat_inputs_to_harmony_messages", 1),
    Use(f"{_HARMONY}:render_for_completion", 1),
    Use("vllm.entrypoints.serve.utils.api_utils:get_max_tokens", 5, ("truncate_prompt_tokens",)),
    Use("vllm.entrypoints.generate.base.protocol:validate_request_mm_kwargs", 0, ("mm_processor_kwargs",
        "media_io_kwargs", "trust_request_mm_kwargs")),
    Use("vllm.entrypoints.anthropic.protocol:AnthropicCountTokensRequest"),
    Use("vllm.entrypoints.anthropic.protocol:AnthropicEffort"),
    Use("vllm.entrypoints.anthropic.protocol:AnthropicMessagesRequest"),
    Use("vllm.entrypoints.anthropic.serving:AnthropicServingMessages"),
    Use("vllm.entrypoints.anthropic.serving:_to_anthropic_stop_reason"),
    Use("vllm.entrypoints.generate.base.protocol:DeltaFunctionCall", 0, ("name", "arguments")),
    Use("vllm.entrypoints.generate.base.protocol:DeltaMessage", 0, ("content", "reasoning", "tool_calls")),
    Use("vllm.entrypoints.generate.base.protocol:DeltaToolCall", 0, ("index", "function")),
    Use("vllm.entrypoints.generate.base.protocol:FunctionCall", 0, ("id", "name", "arguments")),
    Use(f"{_HARMONY}:extract_function_from_recipient", 1),
    Use(f"{_HARMONY}:get_user_message", 1),
    Use(f"{_HARMONY}:has_custom_tools", 1),
    Use(f"{_HARMONY}:is_function_recipient", 1),
    Use(f"{_RESPONSES}.harmony:construct_harmony_previous_input_messages", 1),
    Use(f"{_RESPONSES}.harmony:harmony_to_response_output", 2, ("incomplete",)),
    Use(f"{_RESPONSES}.harmony:response_input_to_harmony", 2),
    Use(f"{_RESPONSES}.protocol:ResponsesRequest.build_chat_params", 3),
    Use(f"{_RESPONSES}.protocol:ResponsesRequest.build_tok_params", 2),
    Use(f"{_RESPONSES}.protocol:ResponsesRequest.is_include_output_logprobs", 1),
    Use(f"{_RESPONSES}.protocol:ResponsesRequest.to_sampling_params", 3),
    Use(f"{_RESPONSES}.protocol:ResponsesResponse.from_request", 2, ("model_name", "created_time", "output", "status",
        "kv_transfer_params", "ec_transfer_params")),
    Use(f"{_RESPONSES}.streaming_events:SimpleStreamingEventProcessor", 0, ("state", "tools")),
    Use(f"{_RESPONSES}.streaming_events:SimpleStreamingEventProcessor.close_current", 1, ("status",)),
    Use(f"{_RESPONSES}.streaming_events:SimpleStreamingEventProcessor.emit_delta", 4),
    Use(f"{_RESPONSES}.streaming_events:SimpleStreamingEventProcessor.needs_transition", 3),
    Use(f"{_RESPONSES}.streaming_events:SimpleStreamingEventProcessor.open", 3),
    Use(f"{_RESPONSES}.streaming_events:SimpleStreamingEventProcessor.resolve_target_state", 2),
    Use(f"{_RESPONSES}.streaming_events:SimpleStreamingState", 0),
    Use(f"{_RESPONSES}.streaming_events:StreamingState", 0, ("current_content_index", "current_output_index",
        "current_item_id", "current_call_id", "sent_output_item_added", "is_first_function_call_delta")),
    Use(f"{_RESPONSES}.streaming_events:_StateType"),
    Use(f"{_RESPONSES}.streaming_events:emit_content_delta_events", 3),
    Use(f"{_RESPONSES}.streaming_events:emit_previous_item_done_events", 3),
    Use(f"{_RESPONSES}.streaming_events:split_delta", 1),
    Use(f"{_RESPONSES}.utils:Logprob", attributes=("model_validate",)),
    Use(f"{_RESPONSES}.utils:build_response_output_items", 0, ("reasoning", "content", "tool_calls", "logprobs",
        "tools", "finish_reason")),
    Use(f"{_RESPONSES}.utils:construct_input_messages", 0, ("request_instructions", "request_input")),
    Use(f"{_RESPONSES}.utils:construct_tool_dicts", 2, ("exclude_tools_when_tool_choice_none",)),
    Use(f"{_RESPONSES}.utils:extract_function_tool_names", 1),
    Use(f"{_RESPONSES}.utils:extract_tool_types", 1),
    Use(f"{_RESPONSES}.utils:reuse_streamed_item_ids", 2),
    Use("vllm.entrypoints.serve.utils.tool_calls_utils:maybe_filter_parallel_tool_calls", 2),
    Use("vllm.renderers.chat_utils:make_tool_call_id", 0),
    Use("vllm.renderers.hf:resolve_chat_template"),
    Use("vllm.exceptions:VLLMError"),
    Use("vllm.parser.utils:count_history_tool_calls"),
    Use("vllm.renderers:merge_kwargs", 2),
    Use("vllm.renderers:ChatParams", attributes=("with_defaults",)),
    Use("vllm.renderers.params:ReasoningEffort"),
    Use("vllm.tool_parsers.tool_strict_level:ToolStrictLevel"),
    Use("vllm.renderers.chat_utils:has_non_text_content", 1),
    Use("vllm.renderers.chat_utils:parse_chat_messages", 3),
    Use("vllm.renderers.hf:resolve_chat_template_content_format", 0, ("chat_template", "tools", "given_format",
        "tokenizer", "model_config")),
    Use("vllm.renderers.hf:safe_apply_chat_template", 3),
    Use("vllm.renderers.deepseek_v4:_FIM_BEGIN"),
    Use("vllm.renderers.deepseek_v4:_FIM_END"),
    Use("vllm.renderers.deepseek_v4:_FIM_HOLE"),
    Use("vllm.tokenizers.deepseek_v32:get_deepseek_v32_tokenizer", 1),
    Use("vllm.tokenizers.deepseek_v4:get_deepseek_v4_tokenizer", 1),
    Use("vllm.tokenizers.deepseek_v41:get_deepseek_v41_tokenizer", 1),
    Use("vllm.tokenizers.mistral:MistralTokenizer", attributes=("register",)),
    Use("vllm.utils.mistral:is_mistral_tool_parser", 1),
    Use(f"{_ENGINE}.parser_engine:ToolCallSlot", 0),
    Use(f"{_ENGINE}.parser_engine_config:ParserState"),
    Use(f"{_ENGINE}.token_id_scanner:PreLexedTerminal", 3),
    Use("vllm.reasoning.olmo3_reasoning_parser:Olmo3ReasoningState"),
    Use("vllm.tool_parsers.streaming:_scan_required_tool_calls", 1),
    Use(f"{_TEMPLATE}:compile_chat_template", 1),
    Use(f"{_TEMPLATE}:render_chat_template", 2),
    Use(f"{_TEMPLATE}:_with_mark", 3),
    Use(f"{_TEMPLATE}:_cut_at_mark", 2),
)  # fmt: skip
"""Everything, as the newest version has it."""

_OLDER_RESPONSES = frozenset({"build_response_output_items.finish_reason", "close_current.status"})
_EFFORT_MAP = frozenset({"build_chat_params.reasoning_effort_map", "vllm.renderers.params:ReasoningEffort"})
LACKING: Mapping[str, frozenset[str]] = {
    "0.32.0": _OLDER_RESPONSES | _EFFORT_MAP,
    "0.31.0": frozenset(
        {
            *_OLDER_RESPONSES,
            *_EFFORT_MAP,
            "vllm.entrypoints.openai.responses.utils:reuse_streamed_item_ids",
            "get_parser.tokenizer",
            "vllm.parser.abstract_parser:Parser.always_adjust_request",
            "vllm.parser.abstract_parser:Parser.set_prompt_token_ids",
            "vllm.tool_parsers.streaming:_scan_required_tool_calls",
        }
    ),
}
"""What the newest version has and an older one does not: an argument, ``function.argument``, or a definition by its
name above. Whoever uses one of these asks :func:`has` first."""


def has(version: str, what: str) -> bool:
    """Whether a version of vLLM has something that not all have, by its name in ``LACKING``."""
    return what not in LACKING.get(version, ())
