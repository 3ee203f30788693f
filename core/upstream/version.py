"""Which vLLM this is: whose answers ours are compared with, and whose parsers the slice holds."""

from __future__ import annotations

from importlib.util import find_spec

_VERSION = "0.33.0"


def vllm_version() -> str:
    """The version, for ``/version`` and the fingerprint of a stream state. Imports no vLLM."""
    return _VERSION


def installed_version() -> str:
    """The version of the vLLM that is installed. Imports it."""
    from vllm.version import __version__  # late: a plain deployment imports no vLLM

    return str(__version__)


def is_installed() -> bool:
    """Whether there is a vLLM to import. Does not import it."""
    return find_spec("vllm") is not None
