"""The parser registries of the upstream wheel: they load parsers by name, which no import statement shows."""

from __future__ import annotations

import ast

from infra.slice.errors import MissingDefinition, MissingModule
from infra.slice.sources import Sources

TABLES = (
    ("tool", ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER")),
    ("reasoning", ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER")),
)


def registry(sources: Sources) -> dict[str, dict[str, tuple[str, str]]]:
    """(module, class) of every parser that upstream registers, by name, for each kind, `tool` and `reasoning`."""
    return {kind: _table(sources, *place) for kind, place in TABLES}


def registered_parsers(sources: Sources) -> tuple[str, ...]:
    """A root, `module:class`, for every tool and reasoning parser that upstream registers."""
    found = [entry for table in registry(sources).values() for entry in table.values()]
    return tuple(dict.fromkeys(f"{module}:{name}" for module, name in found))


def _table(sources: Sources, package: str, variable: str) -> dict[str, tuple[str, str]]:
    source = sources.find(package)
    if source is None:
        raise MissingModule(package, "the parser registries")
    for statement in ast.parse(source.text).body:
        if isinstance(statement, ast.Assign):
            targets: list[ast.expr] = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        if statement.value is not None and any(isinstance(t, ast.Name) and t.id == variable for t in targets):
            table = ast.literal_eval(statement.value)
            return {name: (f"{package}.{module}", definition) for name, (module, definition) in table.items()}
    raise MissingDefinition(package, variable, "the parser registries")
