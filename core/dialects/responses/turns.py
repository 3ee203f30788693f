"""Responses that continue token for token: an answer is a run of output items, one of which carries its ids.

Loaded by the first request that continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.dialects.responses.answer import response_options
from core.turns.door import Door

_OUTPUT = ("reasoning", "function_call", "custom_tool_call")


def _is_output(item: Any) -> bool:
    """Whether an input item is one that a model wrote."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type") or "message"
    return kind in _OUTPUT or (kind == "message" and item.get("role") == "assistant")


RESPONSES = Door("input", _is_output, True, response_options)
