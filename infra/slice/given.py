"""GIVEN: definitions of a module come from another one in place of the module's own.

For what a version of vLLM does not have yet, or has in a form that pulls in what the slice leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping


def given_imports(given: Mapping[str, str]) -> str:
    """The imports that bind the names, from the modules that `given` maps them to."""
    return "".join(f"\nfrom {given[name]} import {name}  # noqa\n" for name in sorted(given))


def give(text: str, given: Mapping[str, str]) -> str:
    """The module's text with the names bound anew at its end: whatever runs later sees these."""
    return text.rstrip("\n") + "\n\n" + given_imports(given)
