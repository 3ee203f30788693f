"""The class by which vLLM's parsers tell Mistral's own tokenizer from others.

The tokenizer itself stands on mistral-common and transformers and is not part of the slice. An adapter that has
`version`, `supports_grammar` and `grammar_factory` derives from this class, or registers with it.
"""

from abc import ABC

__all__ = ["MistralTokenizer"]


class MistralTokenizer(ABC):  # noqa: B024 - a mark, with nothing to implement
    """A mark."""

    IS_MISTRAL_TOKENIZER = True
