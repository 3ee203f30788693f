"""Which vLLM this is: whose parsers the slice holds, and whose answers ours are compared with."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from core.errors import ConfigurationError


def vllm_version() -> str:
    """vLLM's version, for ``/version``. Imports no vLLM.

    Raises:
        ConfigurationError: there is no slice.
    """
    return slice_version().partition("+")[0]


@cache
def slice_version() -> str:
    """The version of the slice, ``<vLLM's version>+slice.<revision>``, for the fingerprint of a stream state.

    It is that of the slice that comes first on the path, whether it is imported yet or not.

    Raises:
        ConfigurationError: there is no slice.
    """
    found = find_spec("vllm")
    for folder in (found.submodule_search_locations if found else None) or ():
        file = Path(folder) / "_slice" / "version"
        if file.is_file():
            return file.read_text(encoding="ascii").strip()
    raise ConfigurationError("there is no slice of vLLM here: `make setup` builds the newest, `make slices` the others")


def is_installed() -> bool:
    """Whether there is a vLLM to import. Does not import it."""
    return find_spec("vllm") is not None
