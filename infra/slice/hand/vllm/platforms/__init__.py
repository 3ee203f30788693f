"""The platform of a process without an accelerator."""

import sys

__all__ = ["current_platform"]


class _Platform:
    """What is asked of the platform when a request's token limit is worked out."""

    def get_max_output_tokens(self, prompt_len: int) -> int:
        """The platform sets no limit."""
        return sys.maxsize


current_platform = _Platform()

# replaces vllm 0.32.0: sha256:1cb18cae8c7ad58f9f8c052d5fad11ab0bec68f2fac01b6912235e9615635de5
# replaces vllm 0.33.0: sha256:5460e7a751717eca51983d05891b33b1796963a419343a9c16f0a5858e014440
