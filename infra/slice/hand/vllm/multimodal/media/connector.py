"""Media options of a request: accepted when absent, refused otherwise."""

from typing import Any

from vllm.exceptions import VLLMValidationError

__all__ = ["merge_media_io_kwargs"]


def merge_media_io_kwargs(
    defaults: dict[str, dict[str, Any]] | None,
    overrides: dict[str, dict[str, Any]] | None,
) -> dict[str, dict[str, Any]] | None:
    """None when neither is set; VLLMValidationError otherwise."""
    if defaults or overrides:
        raise VLLMValidationError("media_io_kwargs is not supported: text only", parameter="media_io_kwargs")
    return None
