"""A response's usage."""

from __future__ import annotations

from core.json import Json
from core.protocol.engine import Usage


def response_usage(
    input_tokens: int, output_tokens: int, reasoning_tokens: int, reported: Usage | None, *, by_turn: bool
) -> Json:
    """The ``usage`` of a response; ``reported`` is the engine's, which alone knows of its cache.

    With ``by_turn`` (gpt-oss models) its counts are told for the one turn that there is, too.
    """
    details = reported.prompt_tokens_details if reported is not None else None
    cached = (details.cached_tokens or 0) if details is not None else 0
    created = (details.created_cache_tokens or 0) if details is not None else 0
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {
            "cached_tokens": cached,
            "cache_write_tokens": created,
            "input_tokens_per_turn": [input_tokens] if by_turn else [],
            "cached_tokens_per_turn": [cached] if by_turn else [],
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {
            "reasoning_tokens": reasoning_tokens,
            "tool_output_tokens": 0,
            "output_tokens_per_turn": [output_tokens] if by_turn else [],
            "tool_output_tokens_per_turn": [0] if by_turn else [],
        },
        "total_tokens": input_tokens + output_tokens,
    }
