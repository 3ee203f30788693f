"""The platform of a process without an accelerator."""

import sys

__all__ = ["current_platform"]


class _Platform:
    """What is asked of the platform when a request's token limit is worked out."""

    def get_max_output_tokens(self, prompt_len: int) -> int:
        """The platform sets no limit."""
        return sys.maxsize


current_platform = _Platform()
