"""MEMOIZE: functions whose result depends only on which objects they are given are called once for those.

vLLM builds some tables for every parser, that is for every request, from a configuration and a tokenizer that live
as long as the process. Each chunk of a stream would pay for them again: the wrapped function keeps what it returned.
The function itself is not changed, and its result must not be either: only functions whose callers read the result
are listed.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from infra.slice.errors import MissingDefinition


def memoize(module: str, text: str, names: Sequence[str], needed_by: str) -> str:
    """The module with the named functions wrapped at its end.

    Raises:
        MissingDefinition: the module defines no function of that name.
    """
    defined = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    for name in names:
        if name not in defined:
            raise MissingDefinition(module, name, needed_by)
    lines = ["", "", "from vllm._slice.memo import memoized as _memoized", ""]
    return text.rstrip("\n") + "\n".join([*lines, *(f"{name} = _memoized({name})" for name in names)]) + "\n"
