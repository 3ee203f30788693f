"""The parser registries of the upstream wheel: they load parsers by name, which no import statement shows."""

from __future__ import annotations

import ast

from infra.slice.errors import MissingDefinition, MissingModule
from infra.slice.sources import Sources

_TABLES = (
    ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
    ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
)


def registered_parsers(sources: Sources) -> tuple[str, ...]:
    """A root, `module:class`, for every tool and reasoning parser that upstream registers."""
    roots: list[str] = []
    for package, variable in _TABLES:
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
                roots.extend(f"{package}.{module}:{name}" for module, name in table.values())
                break
        else:
            raise MissingDefinition(package, variable, "the parser registries")
    return tuple(dict.fromkeys(roots))
