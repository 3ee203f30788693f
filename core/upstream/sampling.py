"""How many tokens an output may have."""

from __future__ import annotations

from vllm.entrypoints.serve.utils.api_utils import get_max_tokens

__all__ = ["get_max_tokens"]
