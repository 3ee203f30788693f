"""Whether a tool parser reads the form in which a chat template teaches a model to call tools.

A parser of another family does not fail: it finds no calls, and leaves their
markup in the text. Only what is plain from the markers is told: a template
that writes one family's calls, and a parser that reads another's alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.errors import ConfigurationError

# How each form of calls is known in a template. A form that has another's marker in it as well comes first.
_FORMS: dict[str, re.Pattern[str]] = {
    name: re.compile(marker)
    for name, marker in {
        "Seed-OSS": r"<seed:tool_call>",
        "MiniMax M2": r"<minimax:tool_call>",
        "LongCat": r"<longcat_tool_call>",
        "GLM": r"<arg_key>",
        "Qwen3-Coder": r"<function=",
        "Hermes": r"<tool_call>(?!\s*<function=)",
        "DeepSeek V3.2": r"｜DSML｜",
        "DeepSeek V3": r"<｜tool▁call",
        "Mistral": r"\[TOOL_CALLS\]",
        "Kimi K2": r"<\|tool_calls?_(?:section_)?begin\|>",
        "FunctionGemma": r"<start_function_call>",
        "harmony": r"<\|channel\|>",
        "Llama": r"<\|(?:start_header_id|header_start|python_tag)\|>",
    }.items()
}
# What a parser reads, for those that read one form alone.
_READS = {
    "hermes": "Hermes",
    "qwen3_json": "Hermes",
    "qwen3_coder": "Qwen3-Coder",
    "qwen3_xml": "Qwen3-Coder",
    "glm45": "GLM",
    "glm47": "GLM",
    "deepseek_v3": "DeepSeek V3",
    "deepseek_v31": "DeepSeek V3",
    "deepseek_v32": "DeepSeek V3.2",
    "deepseek_v4": "DeepSeek V3.2",
    "deepseek_v41": "DeepSeek V3.2",
    "mistral": "Mistral",
    "kimi_k2": "Kimi K2",
    "minimax_m2": "MiniMax M2",
    "seed_oss": "Seed-OSS",
    "functiongemma": "FunctionGemma",
    "longcat": "LongCat",
    "llama3_json": "Llama",
    "llama4_json": "Llama",
    "openai": "harmony",
}


def check_family(tool_parser: str | None, templates: Iterable[str]) -> None:
    """Refuse a tool parser that plainly cannot read what a model with these templates writes.

    Raises:
        ConfigurationError: names both families, and the setting that serves them all the same.
    """
    reads = _READS.get(tool_parser or "")
    written = [name for name, marker in _FORMS.items() if any(map(marker.search, templates))]
    if "Qwen3-Coder" in written or "GLM" in written:
        written = [name for name in written if name != "Hermes"]  # they have its tags around their own
    if reads is not None and written and reads not in written:
        raise ConfigurationError(
            f"tool parser {tool_parser} reads calls in the form of {reads}, and the chat template writes them in "
            f"that of {' or '.join(written)}: choose the parser of the model's family (docs/parsers.md), or serve "
            f"them all the same with --parser-family any (DERENDER_PARSER_FAMILY=any)"
        )
