"""COMPILED: a module of machine code is copied for each processor that vLLM publishes, with a loader in its place.

The slice stays one wheel for every machine. Where there is no machine code for the processor or the system, importing
the module is an ImportError that says so, which upstream's own code turns into a message.
"""

from __future__ import annotations

_LOADER = '''\
"""Loads upstream's machine code for this processor."""

import platform as _platform
import sys as _sys
from importlib.machinery import ExtensionFileLoader as _Loader
from importlib.util import module_from_spec as _module_from_spec, spec_from_loader as _spec_from_loader
from pathlib import Path as _Path

_file = _Path(__file__).with_name(f"{_platform.machine()}.abi3.so")
if _sys.platform != "linux" or not _file.is_file():
    raise ImportError(
        f"{__name__} is machine code, and there is none for {_sys.platform} on {_platform.machine()}", name=__name__
    )
_loader = _Loader(__name__, str(_file))
_module = _module_from_spec(_spec_from_loader(__name__, _loader))
_loader.exec_module(_module)
_sys.modules[__name__] = _module
'''


def loader() -> str:
    """Source of the package that stands for a module of machine code, with files `<machine>.abi3.so` beside it."""
    return _LOADER


def folder(module: str) -> str:
    """Where the package of a module lies below site-packages."""
    return module.replace(".", "/")
