"""Multi-modal processors: there are none, so the tokenizer's own chat template is always the one that counts."""

from typing import Any, NoReturn

from vllm._slice.denied import DeniedModule

__all__ = ["cached_get_processor"]


def cached_get_processor(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: the caller then goes on with the tokenizer's chat template."""
    raise DeniedModule("transformers.AutoProcessor")
