"""The specification for vLLM 0.33.0.

A later vLLM gets a module of its own; what changed shows up as a build error that names it. Every entry here was
compared with full vLLM (see `make parity`).
"""

from __future__ import annotations

from pathlib import Path

from infra.slice.spec import Cut, Defer, Specification

UPSTREAM_VERSION = "0.33.0"
SLICE_VERSION = "0.33.0+slice.2"

_ROOTS = (
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
    "vllm.renderers.chat_utils:parse_chat_messages,parse_chat_messages_async,ConversationMessage,load_chat_template",
    "vllm.renderers.hf",
    "vllm.renderers.deepseek_v4",
    "vllm.tokenizers:TokenizerLike",
    "vllm.tokenizers.deepseek_v32",
    "vllm.tokenizers.deepseek_v4",
    "vllm.tokenizers.deepseek_v41",
    "vllm.tokenizers.detokenizer_utils",
    "vllm.v1.engine.detokenizer:check_stop_strings,uses_fast_detokenizer",
    "vllm._slice.chat_template",
    "vllm._slice.transformers:TokenizersBackend",
    "vllm._slice.transformers.utils.chat_template_utils",
)

_HAND = frozenset(
    {
        # Package inits that only pull in what the slice has no use for.
        "vllm.env_override",
        "vllm.distributed",
        "vllm.entrypoints.serve",
        "vllm.multimodal",
        "vllm.multimodal.media",
        "vllm.transformers_utils",
        "vllm.v1.engine",
        "vllm.v1.structured_output",
        # Neighbours of which a name or two are asked.
        "vllm.config",
        "vllm.distributed.parallel_state",
        "vllm.multimodal.media.connector",
        "vllm.platforms",
        "vllm.renderers.chat_utils.item_tracker",
        "vllm.tokenizers.mistral",
        "vllm.transformers_utils.processor",
        # The slice's own.
        "vllm._slice",
        "vllm._slice.chat_template",
        "vllm._slice.deferred",
        "vllm._slice.denied",
        "vllm._slice.memo",
        "vllm._slice.mistral_common",
        "vllm._slice.mistral_tool_calls",
        "vllm._slice.pil",
        "vllm._slice.prometheus_client",
        "vllm._slice.transformers",
        "vllm._slice.transformers.utils",
        "vllm._slice.transformers.utils.chat_template_utils",
        "vllm._slice.xgrammar",
        "vllm._slice.xgrammar.load_binding",
        "vllm._slice.openai",
        "vllm._slice.openai._models",
        "vllm._slice.openai.types",
    }
)

_CUT = {
    "vllm.config.utils": Cut(("replace",)),
    "vllm.entrypoints.generate.base.serving": Cut(("chat_top_logprobs_limit", "completion_top_logprobs_limit")),
    "vllm.entrypoints.serve.utils.api_utils": Cut(("get_max_tokens", "should_include_usage")),
    "vllm.outputs": Cut(("WeightVersionSpan",), fields=True),
    "vllm.renderers.chat_utils.content_parser": Cut(
        (
            "BaseMultiModalContentParser",
            "MODALITY_PLACEHOLDERS_MAP",
            "PROMPT_EMBEDS_PLACEHOLDER_ID_PREFIX",
            "PROMPT_EMBEDS_PLACEHOLDER_TOKEN",
            "_ENABLE_PROMPT_EMBEDS_ERROR",
            "make_prompt_embeds_placeholder",
        )
    ),
    "vllm.renderers.cohere": Cut(("POSITION_TO_SOURCE_KEY",)),
    "vllm.renderers.hf": Cut(
        (
            "resolve_chat_template",
            "resolve_chat_template_content_format",
            "resolve_chat_template_kwargs",
            "safe_apply_chat_template",
        )
    ),
    # DeepSeek's newer models have no chat template: code encodes their messages, marks say where to fill in.
    "vllm.renderers.deepseek_v4": Cut(("_FIM_BEGIN", "_FIM_END", "_FIM_HOLE")),
    "vllm.tokenizers.deepseek_v32": Cut(("get_deepseek_v32_tokenizer",)),
    "vllm.tokenizers.deepseek_v4": Cut(("get_deepseek_v4_tokenizer",)),
    "vllm.tokenizers.deepseek_v41": Cut(("get_deepseek_v41_tokenizer",)),
    "vllm.utils": Cut(("length_from_prompt_token_ids_or_embeds", "random_uuid")),
    "vllm.utils.import_utils": Cut(("LazyLoader", "import_plugin")),
    "vllm.utils.torch_utils": Cut(("make_ndarray_with_pad",)),
    "vllm.v1.engine.detokenizer": Cut(("check_stop_strings", "uses_fast_detokenizer")),
    "vllm.v1.serial_utils": Cut(("PydanticMsgspecMixin",), fields=True),
    "vllm.v1.structured_output.backend_xgrammar": Cut(
        ("has_xgrammar_unsupported_json_features", "validate_xgrammar_grammar")
    ),
    "vllm.v1.structured_output.utils": Cut(
        ("choice_as_grammar", "compile_regex_with_timeout", "grammar_is_likely_lark")
    ),
    # The mistral parser wants the names of Mistral's special tokens; the tokenizer itself needs PIL.
    "vllm._slice.mistral_common.tokens.tokenizers.base": Cut(("SpecialTokens",)),
    # openai's types need two names besides its base model; the client stays out.
    "vllm._slice.openai._types": Cut(("SequenceNotStr",)),
    "vllm._slice.openai._utils": Cut(("PropertyInfo",)),
    "vllm._slice.openai._utils._transform": Cut(("PropertyInfo",)),
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
_DEFER = {
    "vllm.entrypoints.openai.chat_completion.protocol": Defer(("has_non_text_content",)),
    "vllm.entrypoints.openai.parser.harmony_utils": Defer(("Tool",)),
    "vllm.entrypoints.serve.utils.tool_calls_utils": Defer(("ResponsesRequest",)),
    "vllm.parser.abstract_parser": Defer(
        (
            "ConstStringFormat",
            "Format",
            "Grammar",
            "GrammarFormat",
            "JSONSchemaFormat",
            "OrFormat",
            "RegexFormat",
            "ResponsesRequest",
            "StructuralTag",
            "TagFormat",
            "Tool",
            "ToolChoiceCustom",
            "ToolChoiceFunction",
            "TriggeredTagsFormat",
        )
    ),
    "vllm.parser.beam": Defer(("ToolChoiceFunction",)),
    "vllm.parser.cohere_command": Defer(("xgr",)),
    "vllm.parser.glm47_moe": Defer(("ResponsesRequest",)),
    "vllm.parser.harmony": Defer(
        (
            "AnyTextFormat",
            "BuiltinToolParam",
            "ConstStringFormat",
            "Format",
            "FunctionToolParam",
            "JSONSchemaFormat",
            "OptionalFormat",
            "OrFormat",
            "ResponsesRequest",
            "SequenceFormat",
            "StructuralTag",
            "TagFormat",
            "_ANY_CONTENT",
        )
    ),
    "vllm.parser.ling3": Defer(("ResponsesRequest",)),
    "vllm.parser.mistral": Defer(("ResponsesRequest",)),
    "vllm.parser.response_template": Defer(("ToolChoiceCustom", "ToolChoiceFunction")),
    "vllm.parser.utils": Defer(("ResponseFunctionToolCall", "ResponseInputOutputItem", "ResponsesRequest")),
    "vllm.reasoning.abs_reasoning_parsers": Defer(("ToolServer",)),
    "vllm.reasoning.k2_horizon_reasoning_parser": Defer(("ResponsesRequest",)),
    "vllm.reasoning.muse_reasoning_parser": Defer(("ResponsesRequest",)),
    "vllm.sampling_params": Defer(("make_ndarray_with_pad", "np"), opaque=("np.ndarray",)),
    "vllm.tool_parsers.abstract_tool_parser": Defer(
        (
            "FunctionTool",
            "ResponseFormatTextJSONSchemaConfig",
            "ResponseTextConfig",
            "ResponsesRequest",
            "Tool",
        )
    ),
    "vllm.tool_parsers.apertus_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.deepseekv31_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.deepseekv3_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.dots_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.ernie45_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.functiongemma_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.gemma4_engine_tool_parser": Defer(
        (
            "ResponsesRequest",
            "ToolChoiceCustom",
            "ToolChoiceFunction",
        )
    ),
    "vllm.tool_parsers.gigachat3_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.gptoss_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.granite4_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.granite_20b_fc_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.hermes_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.hunyuan_a13b_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.hy_v3_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.hy_v4_tool_parser": Defer(("ResponsesRequest",)),
    "vllm.tool_parsers.internlm2_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.jamba_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.k2_horizon_tool_parser": Defer(
        ("ResponsesRequest", "Tool", "ToolChoiceCustom", "ToolChoiceFunction", "ToolParserRequest")
    ),
    "vllm.tool_parsers.kimi_k2_tool_parser": Defer(("ResponsesRequest",)),
    "vllm.tool_parsers.kimi_k3_tool_parser": Defer(
        (
            "ResponsesRequest",
            "Tool",
            "ToolChoiceCustom",
            "ToolChoiceFunction",
        )
    ),
    "vllm.tool_parsers.lfm2_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.llama4_pythonic_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.llama_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.longcat_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.minicpm5xml_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.muse_tool_parser": Defer(("ResponsesRequest", "Tool", "ToolChoiceCustom", "ToolChoiceFunction")),
    "vllm.tool_parsers.olmo3_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.phi4mini_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.poolside_v1_tool_parser": Defer(
        (
            "ResponsesRequest",
            "Tool",
            "ToolChoiceCustom",
            "ToolChoiceFunction",
        )
    ),
    "vllm.tool_parsers.pythonic_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.step3_tool_parser": Defer(("ResponsesRequest", "Tool")),
    "vllm.tool_parsers.step5_tool_parser": Defer(("Tool",)),
    "vllm.tool_parsers.structural_tag_registry": Defer(
        (
            "AnyTextFormat",
            "BuiltinToolParam",
            "ConstStringFormat",
            "CustomTool",
            "FunctionTool",
            "FunctionToolParam",
            "JSONSchemaFormat",
            "OptionalFormat",
            "OrFormat",
            "PlusFormat",
            "RegexFormat",
            "ResponsesTool",
            "ResponsesToolChoice",
            "SequenceFormat",
            "StarFormat",
            "StructuralTag",
            "StructuralTagBuilder",
            "TagFormat",
            "TagsWithSeparatorFormat",
            "TokenTriggeredTagsFormat",
            "ToolChoice",
            "ToolChoiceAllowed",
            "ToolChoiceCustom",
            "ToolChoiceFunction",
            "TriggeredTagsFormat",
            "_TOOL_CALL_LIST_FORMATS",
            "get_xgrammar_model_structural_tag",
            "normalize_tool_choice",
        )
    ),
    "vllm.tool_parsers.utils": Defer(
        (
            "CustomTool",
            "FunctionTool",
            "NamespaceTool",
            "ResponsesTool",
            "Tool",
            "ToolChoiceCustom",
            "ToolChoiceFunction",
        )
    ),
    "vllm.tool_parsers.xlam_tool_parser": Defer(("Tool",)),
}

_MEMOIZE = {
    # A lexer over all special tokens, compiled for every parser that is built: 0.5 ms with Qwen3's 14 special
    # tokens, 150 ms with the 1,000 of Mistral's tekken. It depends on the parser's configuration and the tokenizer.
    "vllm.parser.engine.streaming_parser_engine": ("_build_drop_info",),
}

SPECIFICATION = Specification(
    roots=_ROOTS,
    hand=_HAND,
    hand_folder=Path(__file__).parent / "hand",
    cut=_CUT,
    defer=_DEFER,
    memoize=_MEMOIZE,
    lazy=_LAZY,
    redirects=_REDIRECTS,
    denied=_DENIED,
    absent=_ABSENT,
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
