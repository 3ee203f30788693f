"""A message's usage: the prompt's tokens without those that the engine had in its cache."""

from __future__ import annotations

from core.json import Json
from core.protocol.engine import Usage


def message_usage(prompt_tokens: int, output_tokens: int, reported: Usage | None = None) -> Json:
    """The ``usage`` of a message; ``reported`` is the engine's, which alone knows of its cache."""
    counts: Json = {"input_tokens": prompt_tokens, "output_tokens": output_tokens}
    details = reported.prompt_tokens_details if reported is not None else None
    if details is not None:
        cached, created = details.cached_tokens, details.created_cache_tokens
        if cached is not None:
            counts["cache_read_input_tokens"] = cached
        if created is not None:
            counts["cache_creation_input_tokens"] = created
        counts["input_tokens"] = max(0, prompt_tokens - (cached or 0) - (created or 0))
    return counts
