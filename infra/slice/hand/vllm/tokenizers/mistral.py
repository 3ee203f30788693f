"""The class by which vLLM's parsers tell Mistral's own tokenizer from others.

The tokenizer itself stands on mistral-common and transformers and is not part of the slice. An adapter that has
`version`, `supports_grammar` and `grammar_factory` derives from this class, or registers with it.
"""

from abc import ABC

__all__ = ["MistralTokenizer"]


class MistralTokenizer(ABC):  # noqa: B024 - a mark, with nothing to implement
    """A mark."""

    IS_MISTRAL_TOKENIZER = True


# replaces vllm 0.31.0: sha256:4b4f6e581589743a999b3539ed52f78cf1d262bd4d8d2114155f74c3c0072bdd
# replaces vllm 0.33.0: sha256:6c62d196645a976e9ad46138432b161623cbd60483d30c186bec2a05e5306eb0
