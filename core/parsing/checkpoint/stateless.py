"""The classes of vLLM 0.33.0's parsers that add no state to that of the classes they are based on (see ``catalog``)."""

from __future__ import annotations

from collections.abc import Mapping

_ENGINES = {
    "deepseek_v32": ("DeepSeekV32Parser",),
    "deepseek_v4": ("DeepSeekV4Parser",),
    "deepseek_v41": ("DeepSeekV41Parser",),
    "gemma4": ("Gemma4Parser",),
    "glm47_moe": ("Glm47MoeParser",),
    "granite": ("GraniteParser",),
    "granite_thinking": ("GraniteThinkingParser",),
    "inkling": ("InklingParser",),
    "kimi_k2": ("KimiK2Parser",),
    "ling3": ("Ling3Parser",),
    "mimo": ("MiMoParser",),
    "minicpmv": ("MiniCPMVParser",),
    "minimax_m2": ("MinimaxM2Parser",),
    "minimax_m3": ("MinimaxM3Parser",),
    "mistral": ("MistralParser",),
    "nemotron_v3": ("NemotronV3Parser",),
    "plamo3": ("Plamo3Parser",),
    "qwen3": ("Qwen3Parser",),
    "seed_oss": ("SeedOssParser",),
    "step3p5": ("Step3p5Parser",),
}
_PARSERS = {
    "abstract_parser": ("DelegatingParser",),
    "beam": ("BeamParser", "BeamReasoningParser", "BeamToolParser"),
    "kimi_k3": ("KimiK3Parser",),
    "response_template": ("ResponseTemplateReasoningParser", "ResponseTemplateToolParser"),
}
_REASONING_PARSERS = {
    "abs_reasoning_parsers": ("ReasoningParser",),
    "basic_parsers": ("BaseThinkingReasoningParser",),
    "cohere_command_reasoning_parser": (
        "BaseCohereCommandReasoningParser",
        "CohereCommand3ReasoningParser",
        "CohereCommand4ReasoningParser",
    ),
    "deepseek_r1_reasoning_parser": ("DeepSeekR1ReasoningParser",),
    "deepseek_v3_reasoning_parser": ("DeepSeekV3ReasoningWithThinkingParser",),
    "ernie45_reasoning_parser": ("Ernie45ReasoningParser",),
    "gptoss_reasoning_parser": ("GptOssReasoningParser",),
    "granite_reasoning_parser": ("GraniteReasoningParser",),
    "hy_v4_reasoning_parser": ("HYV4ReasoningExtractor",),
    "identity_reasoning_parser": ("IdentityReasoningParser",),
    "minicpmv_reasoning_parser": ("MiniCPMVParserReasoningAdapter",),
    "minimax_m2_reasoning_parser": ("MiniMaxM2AppendThinkReasoningParser", "MiniMaxM2ReasoningParser"),
    "muse_glimmer_reasoning_parser": ("MuseGlimmerReasoningParser",),
    "poolside_v1_reasoning_parser": ("PoolsideV1ReasoningParser",),
    "step3_reasoning_parser": ("Step3ReasoningParser",),
}
_TOOL_PARSERS = {
    "cohere_command_tool_parser": (
        "BaseCohereCommandToolParser",
        "CohereCommand3ToolParser",
        "CohereCommand4ToolParser",
    ),
    "deepseekv31_tool_parser": ("DeepSeekV31ToolParser",),
    "deepseekv32_engine_tool_parser": ("DeepSeekV32EngineToolParser",),
    "deepseekv3_tool_parser": ("DeepSeekV3ToolParser",),
    "deepseekv41_engine_tool_parser": ("DeepSeekV41EngineToolParser",),
    "deepseekv4_engine_tool_parser": ("DeepSeekV4EngineToolParser",),
    "gemma4_engine_tool_parser": ("Gemma4EngineToolParser",),
    "glm47_moe_tool_parser": ("Glm47MoeModelToolParser",),
    "gptoss_tool_parser": ("GptOssToolParser",),
    "granite_20b_fc_tool_parser": ("Granite20bFCToolParser",),
    "granite_engine_tool_parser": ("GraniteEngineToolParser",),
    "inkling_tool_parser": ("InklingEngineToolParser",),
    "jamba_tool_parser": ("JambaToolParser",),
    "kimi_k2_tool_parser": ("KimiK2ToolParser",),
    "ling3_tool_parser": ("Ling3ToolParser",),
    "llama4_pythonic_tool_parser": ("Llama4PythonicToolParser",),
    "llama_tool_parser": ("Llama3JsonToolParser",),
    "longcat_tool_parser": ("LongcatFlashToolParser",),
    "mimo_tool_parser": ("MiMoToolParser",),
    "minimax_m2_tool_parser": ("MinimaxM2ToolParser",),
    "minimax_m3_tool_parser": ("MinimaxM3ToolParser",),
    "mistral_tool_parser": ("MistralToolParser",),
    "muse_glimmer_tool_parser": ("MuseGlimmerToolParser",),
    "olmo3_tool_parser": ("Olmo3PythonicToolParser",),
    "phi4mini_tool_parser": ("Phi4MiniJsonToolParser",),
    "plamo3_engine_tool_parser": ("Plamo3EngineToolParser",),
    "pythonic_tool_parser": ("PythonicToolParser",),
    "qwen3_engine_tool_parser": ("Qwen3EngineToolParser",),
    "seed_oss_engine_tool_parser": ("SeedOssEngineToolParser",),
    "step3p5_tool_parser": ("Step3p5ToolParser",),
    "step5_tool_parser": ("Step5ToolParser",),
}


def _names(package: str, modules: Mapping[str, tuple[str, ...]]) -> set[str]:
    return {f"vllm.{package}.{module}.{name}" for module, names in modules.items() for name in names}


_ENGINE_NAMES = [name for names in _ENGINES.values() for name in names]
# Classes that add no state of their own. The adapters are made for each engine, under these names.
WITHOUT_STATE = frozenset(
    _names("parser", _ENGINES)
    | _names("parser", _PARSERS)
    | _names("reasoning", _REASONING_PARSERS)
    | _names("tool_parsers", _TOOL_PARSERS)
    | {f"vllm.parser.engine.adapters.{name}{half}Adapter" for name in _ENGINE_NAMES for half in ("Reasoning", "Tool")}
)
