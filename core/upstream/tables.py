"""What is known of the parsers of the vLLM that is installed: one table for each version.

A table is a package of this one, written in the terms of
:mod:`core.parsing.checkpoint.part`. It imports nothing of vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from core.errors import ConfigurationError
from core.parsing.checkpoint import Layouts, Table
from core.upstream.version import vllm_version


def _v0_33() -> Table:
    from core.upstream.v0_33 import TABLE  # late: a call that carries no parser needs no table

    return TABLE


def _v0_32() -> Table:
    from core.upstream.v0_32 import TABLE  # late: a call that carries no parser needs no table

    return TABLE


def _v0_31() -> Table:
    from core.upstream.v0_31 import TABLE  # late: a call that carries no parser needs no table

    return TABLE


_TABLES: Mapping[str, Callable[[], Table]] = {"0.33.0": _v0_33, "0.32.0": _v0_32, "0.31.0": _v0_31}


def table_of(version: str) -> Table:
    """The table of a version of vLLM.

    Raises:
        ConfigurationError: this version is not known.
    """
    check_version(version)
    return _TABLES[version]()


def check_version(version: str) -> None:
    """Whether there is a table for a version of vLLM. Does not load it.

    Raises:
        ConfigurationError: there is not.
    """
    if version not in _TABLES:
        raise ConfigurationError(
            f"nothing is known of the parsers of vLLM {version}, only of those of {', '.join(_TABLES)}"
        )


@cache
def installed_layouts() -> Layouts:
    """The layouts of the parsers of the vLLM that is installed.

    Raises:
        ConfigurationError: its version is not known.
    """
    return Layouts(table_of(vllm_version()))
