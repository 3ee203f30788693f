"""Loads xgrammar's compiled library from the installed distribution, without importing that package."""

from importlib.util import find_spec
from pathlib import Path

from tvm_ffi.libinfo import load_lib_module

__all__ = ["LIB"]


def _folders() -> list[Path]:
    found = find_spec("xgrammar")
    if found is None:
        raise ImportError("grammars need the xgrammar distribution, which is not installed", name="xgrammar")
    return [Path(folder) for folder in found.submodule_search_locations or ()]


LIB = load_lib_module("xgrammar", "xgrammar_bindings", extra_lib_paths=_folders())

# replaces xgrammar 0.2.8: sha256:0d2be9f814f3a34f3fec8b98b6dfb834f214381dac146da18e3bf81b03cce190
