"""Which slice of vLLM a process runs with: chosen before anything imports vLLM, for the whole process.

The newest version's slice is where ``vllm`` is installed, or packaged. Those of
older versions lie beside the code, each in a folder named as its version: in
``slices`` of an artefact, in ``build/slices`` of a checkout (``make slices``).
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

from core.errors import ConfigurationError
from core.upstream.version import slice_version, vllm_version

VARIABLE = "DERENDER_VLLM_VERSION"
_ROOT = Path(__file__).resolve().parents[1]
_PLACES = ("slices", "build/slices")
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")


def available() -> dict[str, Path | None]:
    """The versions of vLLM that there are slices of, newest first, with their folders (None: where ``vllm`` is)."""
    found: dict[str, Path | None] = {}
    for place in reversed(_PLACES):
        folder = _ROOT / place
        for entry in folder.iterdir() if folder.is_dir() else ():
            if _VERSION.fullmatch(entry.name) and (entry / "vllm").is_dir():
                found[entry.name] = entry
    found[vllm_version()] = None
    return {version: found[version] for version in sorted(found, key=_number, reverse=True)}


def choose(version: str | None) -> None:
    """Make this process run with the slice of a version of vLLM; None is the newest that is here.

    Raises:
        ConfigurationError: there is no slice of it, or another one is loaded already.
    """
    if version is None or version == vllm_version():
        return
    slices = available()
    if version not in slices:
        raise ConfigurationError(f"{VARIABLE} must be one of {', '.join(slices)}, not {version!r}")
    if "vllm" in sys.modules:
        raise ConfigurationError(f"{VARIABLE} is {version}, and vLLM {vllm_version()} is loaded already")
    sys.path.insert(0, str(slices[version]))
    importlib.invalidate_caches()
    slice_version.cache_clear()


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
