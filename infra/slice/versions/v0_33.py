"""The specification for vLLM 0.33.0, the newest: in full. Older ones say what is not so with them.

A newer vLLM takes over these tables and leaves this one with its differences (docs/upgrading.md). Every entry was
compared with full vLLM (see `make parity`).
"""

from __future__ import annotations

from infra.slice.spec import Cut, Specification

_ROOTS = (
    "vllm.entrypoints.anthropic.protocol:AnthropicMessagesRequest,AnthropicCountTokensRequest,AnthropicEffort",
    "vllm.entrypoints.anthropic.serving:AnthropicServingMessages,_to_anthropic_stop_reason",
    "vllm.parser:ParserManager,DelegatingParser,Parser,HarmonyParser",
    "vllm.parser.utils:count_history_tool_calls",
    "vllm.tool_parsers:ToolParserManager",
    "vllm.reasoning:ReasoningParserManager",
    "vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest,ChatCompletionResponse,"
    "ChatCompletionStreamResponse",
    "vllm.entrypoints.openai.completion.protocol:CompletionRequest,CompletionResponse,CompletionStreamResponse",
    "vllm.entrypoints.openai.chat_completion.stream_processor:ChatStreamProcessor",
    "vllm.entrypoints.openai.chat_completion.message_assembly",
    "vllm.entrypoints.openai.parser.harmony_utils",
    "vllm.entrypoints.openai.responses.harmony",
    "vllm.entrypoints.openai.responses.protocol:ResponsesRequest,ResponsesResponse",
    "vllm.entrypoints.openai.responses.streaming_events:SimpleStreamingEventProcessor,SimpleStreamingState,"
    "StreamingState,_StateType,emit_content_delta_events,emit_previous_item_done_events,split_delta",
    "vllm.entrypoints.openai.responses.utils",
    "vllm.entrypoints.scale_out.token_in_token_out.protocol",
    "vllm.entrypoints.serve.engine.protocol:ErrorResponse,UsageInfo",
    "vllm.entrypoints.serve.tokenize.protocol",
    "vllm.entrypoints.serve.utils.api_utils:get_max_tokens",
    "vllm.entrypoints.serve.utils.tool_calls_utils:resolve_finish_reason",
    "vllm.entrypoints.generate.base.serving:chat_top_logprobs_limit,completion_top_logprobs_limit",
    "vllm.logprobs",
    "vllm.sampling_params:SamplingParams",
    "vllm.renderers:ChatParams,TokenizeParams,merge_kwargs,map_reasoning_effort,ReasoningEffort",
    "vllm.renderers.params",
    "vllm.renderers.chat_utils:parse_chat_messages,parse_chat_messages_async,ConversationMessage,load_chat_template,"
    "has_non_text_content,make_tool_call_id",
    "vllm.renderers.hf:resolve_chat_template,resolve_chat_template_content_format,resolve_chat_template_kwargs,"
    "safe_apply_chat_template",
    "vllm.renderers.deepseek_v4:_FIM_BEGIN,_FIM_END,_FIM_HOLE",
    "vllm.tokenizers:TokenizerLike",
    "vllm.tokenizers.deepseek_v32:get_deepseek_v32_tokenizer",
    "vllm.tokenizers.deepseek_v4:get_deepseek_v4_tokenizer",
    "vllm.tokenizers.deepseek_v41:get_deepseek_v41_tokenizer",
    "vllm.tokenizers.detokenizer_utils",
    "vllm.v1.engine.detokenizer:check_stop_strings,uses_fast_detokenizer",
    "vllm._slice.chat_template",
    "vllm._slice.denied",
    "vllm._slice.transformers:TokenizersBackend",
    "vllm._slice.transformers.utils.chat_template_utils",
)

_CUT = {
    "vllm.config.utils": Cut(),
    # The conversion of Messages requests. What is left out stands on the server for chats.
    "vllm.entrypoints.anthropic.serving": Cut(
        members={"AnthropicServingMessages": ("to_chat_completion_request", "_detect_merge_inline_system")}
    ),
    "vllm.entrypoints.generate.base.serving": Cut(),
    # The events of a stream. What is left out calls tools that the server has.
    "vllm.entrypoints.openai.responses.streaming_events": Cut(),
    "vllm.entrypoints.serve.utils.api_utils": Cut(),
    "vllm.outputs": Cut(),
    "vllm.renderers.chat_utils.content_parser": Cut(),
    "vllm.renderers.cohere": Cut(),
    "vllm.renderers.hf": Cut(),
    # DeepSeek's newer models have no chat template: code encodes their messages, marks say where to fill in.
    "vllm.renderers.deepseek_v4": Cut(),
    "vllm.tokenizers.deepseek_v32": Cut(),
    "vllm.tokenizers.deepseek_v4": Cut(),
    "vllm.tokenizers.deepseek_v41": Cut(),
    "vllm.utils": Cut(),
    "vllm.utils.import_utils": Cut(),
    "vllm.utils.torch_utils": Cut(),
    "vllm.v1.engine.detokenizer": Cut(),
    "vllm.v1.serial_utils": Cut(),
    "vllm.v1.structured_output.backend_xgrammar": Cut(),
    "vllm.v1.structured_output.utils": Cut(),
    # The mistral parser wants the names of Mistral's special tokens; the tokenizer itself needs PIL.
    "vllm._slice.mistral_common.tokens.tokenizers.base": Cut(),
    # openai's types need two names besides its base model; the client stays out.
    "vllm._slice.openai._types": Cut(),
    "vllm._slice.openai._utils": Cut(),
    "vllm._slice.openai._utils._transform": Cut(),
}

# Package inits that would load everything below them, for one name.
_LAZY = frozenset(
    {
        "vllm.parser",
        "vllm.parser.engine.registered_adapters",
        "vllm.renderers",
        "vllm.renderers.chat_utils",
        "vllm.tokenizers",
        "vllm._slice.openai.types.chat",
        "vllm._slice.openai.types.responses",
        "vllm._slice.openai.types.shared",
        "vllm._slice.openai.types.shared_params",
    }
)

# openai would import its client, xgrammar its matcher and with it torch; the others are names in annotations.
_REDIRECTS = {
    "openai": "vllm._slice.openai",
    "PIL": "vllm._slice.pil",
    "mistral_common": "vllm._slice.mistral_common",
    "mistral_common.protocol.instruct.tool_calls": "vllm._slice.mistral_tool_calls",
    "prometheus_client": "vllm._slice.prometheus_client",
    "transformers": "vllm._slice.transformers",
    "xgrammar": "vllm._slice.xgrammar",
}

# The engine, and what stands on torch. Modules below these that are named above are replaced, not denied.
_DENIED = frozenset(
    {
        "vllm.compilation",
        "vllm.config",
        "vllm.distributed",
        "vllm.engine",
        "vllm.entrypoints.openai.responses.context",
        "vllm.lora",
        "vllm.model_executor",
        "vllm.multimodal",
        "vllm.platforms",
        "vllm.renderers.base",
        "vllm.renderers.registry",
        "vllm.tokenizers.hf",
        "vllm.tokenizers.registry",
        "vllm.triton_utils",
        "vllm.utils.torch_version",
        "vllm.v1.engine.core",
        "vllm.v1.structured_output.backend_guidance",
        "vllm.v1.structured_output.backend_lm_format_enforcer",
        "vllm.v1.structured_output.backend_outlines",
        "vllm.v1.worker",
    }
)

_ABSENT = frozenset(
    {
        # The fingerprint of all environment variables, for compile caches.
        "vllm.config.utils:normalize_value",
    }
)

# A chat needs none of these: the Responses types (0.22 s to import), numpy (0.06 s), structural tags (0.03 s).
_SLOW = frozenset(
    {
        "numpy",
        "vllm._slice.openai.types.responses",
        "vllm._slice.xgrammar",
        "vllm.entrypoints.mcp",
        "vllm.entrypoints.openai.responses.protocol",
        "vllm.renderers.chat_utils:has_non_text_content",
        "vllm.utils.torch_utils",
    }
)

_PROMPT = {
    "vllm.entrypoints.openai.responses.streaming_events": ("StreamingResponsesResponse", "response_output_text"),
}

_MEMOIZE = {
    # A lexer over all special tokens, compiled for every parser that is built: 0.5 ms with Qwen3's 14 special
    # tokens, 150 ms with the 1,000 of Mistral's tekken. It depends on the parser's configuration and the tokenizer.
    "vllm.parser.engine.streaming_parser_engine": ("_build_drop_info",),
}

SPECIFICATION = Specification(
    version="0.33.0",
    revision=5,
    vendored={"mistral_common": "1.13.1", "openai": "3.57.0", "xgrammar": "0.2.8"},
    roots=_ROOTS,
    cut=_CUT,
    slow=_SLOW,
    prompt=_PROMPT,
    opaque={"vllm.sampling_params": ("np.ndarray",)},
    memoize=_MEMOIZE,
    lazy=_LAZY,
    redirects=_REDIRECTS,
    denied=_DENIED,
    absent=_ABSENT,
    wanting={"vllm.parser.cohere_command": "cohere_melody"},
    data=("vllm/transformers_utils/chat_templates/*.jinja",),
    third_party=frozenset(
        {
            "cohere_melody",  # in a try block: the cohere parsers say that they need it
            "ijson",  # mistral
            "jinja2",
            "mistral_common",  # in a try block: a copy stands in
            "lxml",  # in a try block: minicpm5xml falls back to the standard library
            "msgspec",
            "numpy",
            "openai_harmony",
            "partial_json_parser",
            "pydantic",
            "pydantic_core",
            "regex",
            "tvm_ffi",  # xgrammar's compiled library
            "typing_extensions",
            "vllm",
        }
    ),
    third_party_late=frozenset(
        {
            "gpt_oss",
            "mcp",
            "packaging",
            "pybase64",
            "torch",
            "urllib3",
        }
    ),
)
