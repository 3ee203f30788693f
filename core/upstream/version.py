"""Which vLLM this is: whose answers ours are compared with, and whose parsers the slice holds."""

from __future__ import annotations

_VERSION = "0.33.0"


def vllm_version() -> str:
    """The version, for ``/version`` and the fingerprint of a stream state. Imports no vLLM."""
    return _VERSION


def installed_version() -> str:
    """The version of the vLLM that is installed. Imports it."""
    from vllm.version import __version__  # late: a plain deployment imports no vLLM

    return str(__version__)
