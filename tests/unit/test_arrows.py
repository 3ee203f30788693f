"""What may import what: the product knows nothing of what builds and tests it, and what builds nothing of the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"core", "handlers", "infra", "tests", "benchmarks", "examples", "client", "derender_client"}
# Imports against an arrow, each on purpose: (module, what it imports).
LATE = {("handlers/commands/invoke.py", "infra.emulator.invoke")}  # a checkout's command, see there


def imports(folder: str) -> Iterator[tuple[str, str]]:
    """(file, module of ours that it imports), statements inside functions included."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [] if node.level else [node.module or ""]  # a relative one stays in its folder
            for name in names:
                if name.partition(".")[0] in OURS:
                    yield path.relative_to(ROOT).as_posix(), name


@pytest.mark.parametrize(
    ("folder", "may"),
    [
        ("core", {"core"}),
        ("handlers", {"handlers", "core"}),
        ("infra", {"infra", "handlers", "core"}),  # it ships the product, and reads its settings' names
        ("tests/engine", {"tests", "infra"}),  # infra for the model folder that it builds where it is given none
    ],
)
def test_the_arrows(folder: str, may: set[str]) -> None:
    found = list(imports(folder))
    assert found
    against = {(path, name) for path, name in found if name.partition(".")[0] not in may}
    assert against - LATE == set()


def test_every_import_against_an_arrow_is_there_still() -> None:
    assert set(imports("handlers")) >= LATE


def test_the_engine_shares_no_code_with_the_service() -> None:
    tools = [(path, name) for path, name in imports("tests/engine") if "/test_" not in path and "conftest" not in path]
    assert tools
    assert {name for _, name in tools if not name.startswith("tests.engine")} == {"infra.models"}
