"""The versions of vLLM that there are slices of, each a specification in a module of its own."""

from __future__ import annotations

from importlib import import_module

from infra.slice.errors import SourceError
from infra.slice.spec import Specification

VERSIONS = ("0.33.0", "0.32.0", "0.31.0")
"""Newest first: the first one is the default, and each of the others says what is not as in the one before it."""

NEWEST = VERSIONS[0]


def specification(version: str) -> Specification:
    """The specification of one version. Raises SourceError when there is none."""
    if version not in VERSIONS:
        raise SourceError(f"there is no slice of vllm {version}, there are: {', '.join(VERSIONS)}")
    major, minor, _ = version.split(".")
    found: Specification = import_module(f"{__name__}.v{major}_{minor}").SPECIFICATION
    return found
