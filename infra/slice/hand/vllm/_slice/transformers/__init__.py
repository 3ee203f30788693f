"""The class names of transformers that vLLM's parsers and renderer mention.

A tokenizer adapter derives from `TokenizersBackend`, or registers with it: vLLM asks for that class when it picks the
way to detokenize.
"""

from abc import ABC
from typing import Any

# The release that `make parity` runs full vLLM with: parsers ask for it to choose between ways of writing a template.
__version__ = "5.19.0"

__all__ = ["PreTrainedTokenizerBase", "ProcessorMixin", "PythonBackend", "TokenizersBackend"]


class PreTrainedTokenizerBase(ABC):  # noqa: B024 - nothing has to be implemented
    """The base of all tokenizers."""

    def apply_chat_template(
        self,
        conversation: Any,
        tools: Any = None,
        documents: Any = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tokenize: bool = True,
        padding: Any = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: Any = None,
        return_dict: bool = True,
        return_assistant_tokens_mask: bool = False,
        tokenizer_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The parameters are the point: by their names vLLM knows which of a request's options to pass on."""
        raise NotImplementedError


class PythonBackend(PreTrainedTokenizerBase):
    """A tokenizer written in Python. No instance is ever made."""


class TokenizersBackend(PreTrainedTokenizerBase):
    """A tokenizer on the `tokenizers` library."""


class ProcessorMixin:
    """A multi-modal processor. No instance is ever made."""
