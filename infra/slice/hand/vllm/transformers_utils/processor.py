"""Multi-modal processors: there are none, so the tokenizer's own chat template is always the one that counts."""

from typing import Any, NoReturn

from vllm._slice.denied import DeniedModule

__all__ = ["cached_get_processor"]


def cached_get_processor(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: the caller then goes on with the tokenizer's chat template."""
    raise DeniedModule("transformers.AutoProcessor")


# replaces vllm 0.31.0: sha256:e7e8972fb6c2d3a318333b92262a6bb15cca56642a7fd0347e8f942f8a28ac86
# replaces vllm 0.33.0: sha256:dae31fdee4bafbd5ca97c27917e7a069dd7e16e08b0c2355c5f7d55b9dc1fb0c
