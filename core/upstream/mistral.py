"""What vLLM asks of Mistral's own tokenizer and parser: marks on their classes."""

from __future__ import annotations

from typing import Any


def introduce_tokenizer(cls: type) -> None:
    """Make a tokenizer class known to vLLM's parsers, which ask for instances of their own."""
    from vllm.tokenizers.mistral import MistralTokenizer  # late: few deployments have such a model

    MistralTokenizer.register(cls)


def is_mistral_tool_parser(tool_parser_cls: Any) -> bool:
    """Whether a tool parser is Mistral's own."""
    from vllm.utils.mistral import is_mistral_tool_parser  # late: few deployments have such a model

    return bool(is_mistral_tool_parser(tool_parser_cls))
