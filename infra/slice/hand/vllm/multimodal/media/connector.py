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


# replaces vllm 0.32.0: sha256:6c58eba2564a0e1e6470458d5c2279e34f87ad0ce75940e93edb62a7245125c0
# replaces vllm 0.33.0: sha256:e1215dc29e9c3f5409e832707dc3f76c696280872865f82a6eed0714f172046b
