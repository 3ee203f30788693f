"""The arrows between the packages, read from the source: who may import whom, and that nothing goes in circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "handlers", "infra", "client")
DOOR = "core.upstream"
# What may import which of our packages; ``client`` is a distribution of its own.
MAY = {
    "core": {"core"},
    "handlers": {"handlers", "core"},
    "infra": {"infra", "handlers", "core"},  # it ships the product, and knows its settings
    "client": {"derender_client"},
}
# `derender invoke` builds a function first: it works in a checkout only, and says so elsewhere.
AGAINST = {("handlers.commands.invoke", "infra.emulator.invoke.invoke_function")}
# These modules belong to the wheel that infra/slice builds, not to this tree.
HAND = ROOT / "infra" / "slice" / "hand"


@dataclass(frozen=True)
class Import:
    """One imported name. ``late`` is the line of a statement inside a function, None at module level."""

    target: str
    line: int
    late: bool
    typing: bool


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    @property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines()

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"))


@cache
def modules(package: str) -> dict[str, Module]:
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        if path.is_relative_to(HAND):
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path)
    return found


def every_module(*packages: str) -> list[Module]:
    return [module for package in packages for module in modules(package).values()]


def imports(module: Module) -> Iterator[Import]:
    """Every import statement of a module, wherever it stands, with each name that may be a module."""

    def walk(node: ast.AST, late: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, late, typing)
            elif isinstance(child, ast.ImportFrom):
                assert not child.level, f"{module.path}:{child.lineno}: imports are written out in full"
                for alias in child.names:
                    yield Import(f"{child.module}.{alias.name}", child.lineno, late, typing)
            elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                yield from walk(child, late, True)
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from walk(child, late or inside, typing)

    return walk(module.tree, False, False)


def top(target: str) -> str:
    return target.partition(".")[0]


def test_the_reader_sees_what_there_is() -> None:
    """A test that reads nothing finds nothing wrong."""
    found = [one for module in every_module("core") for one in imports(module)]
    assert len(found) > 400
    assert any(one.late for one in found)
    assert any(one.typing for one in found)
    assert {top(one.target) for one in found} >= {"core", "vllm", "pydantic"}


def test_only_one_package_imports_vllm() -> None:
    doors, others = set(), []
    for module in every_module(*PACKAGES):
        for one in imports(module):
            if top(one.target) == "vllm":
                if f"{module.name}.".startswith(f"{DOOR}."):
                    doors.add(module.name)
                else:
                    others.append(f"{module.path.relative_to(ROOT)}:{one.line} imports {one.target}")
    assert not others
    assert len(doors) > 5


def test_nothing_but_the_door_imports_by_a_name_in_a_text() -> None:
    """``import_module`` would be a second door."""
    others = [
        f"{module.path.relative_to(ROOT)}:{node.lineno}"
        for module in every_module("core", "handlers")
        if not f"{module.name}.".startswith(f"{DOOR}.")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).endswith(("import_module", "__import__"))
    ]
    assert not others


@pytest.mark.parametrize("package", MAY)
def test_arrows_go_one_way(package: str) -> None:
    ours = {*PACKAGES, "derender_client", "tests", "benchmarks", "examples"}
    wrong = [
        f"{module.path.relative_to(ROOT)}:{one.line} imports {one.target}"
        for module in every_module(package)
        if not module.path.is_relative_to(ROOT / "client" / "tests")
        for one in imports(module)
        if top(one.target) in ours - MAY[package] and (module.name, one.target) not in AGAINST
    ]
    assert not wrong


def test_every_import_against_an_arrow_is_late_and_still_there() -> None:
    late = {(module.name, one.target) for module in every_module("handlers") for one in imports(module) if one.late}
    assert late >= AGAINST


def test_the_scripted_engine_shares_no_code_with_the_service() -> None:
    """It would share its mistakes. ``infra.models`` builds the folder that it serves where it is given none."""
    own = [module for module in every_module("tests/engine") if not module.path.name.startswith(("test_", "conftest"))]
    assert len(own) > 5
    targets = {one.target for module in own for one in imports(module)}
    ours = {target for target in targets if top(target) in {*PACKAGES, "derender_client", "tests"}}
    assert {target for target in ours if not target.startswith("tests.engine.")} == {"infra.models.build"}


def graph(package: str) -> dict[str, set[str]]:
    """Who imports whom inside a package, at module level or in a function. Types alone are not counted."""
    known = modules(package)
    edges: dict[str, set[str]] = {name: set() for name in known}
    for name, module in known.items():
        for one in imports(module):
            if one.typing:
                continue
            target = one.target if one.target in known else one.target.rpartition(".")[0]
            if target in known and target != name:
                edges[name].add(target)
    return edges


def circle(edges: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, in order; empty when there is no circle."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in sorted(edges[name]):
            found = visit(target, [*path, name])
            if found:
                return found
        done.add(name)
        return []

    for name in edges:
        found = visit(name, [])
        if found:
            return found
    return []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("package", ["core", "handlers", "infra", "client"])
def test_no_module_imports_itself_by_way_of_others(package: str) -> None:
    assert circle(graph(package)) == []


@pytest.mark.parametrize("package", ["core", "handlers"])
def test_a_late_import_says_why(package: str) -> None:
    """A comment on the statement, or above the statements that it is about."""
    silent = []
    for module in every_module(package):
        lines = module.lines
        for line in sorted({one.line for one in imports(module) if one.late and not one.typing}):
            above = line - 1
            while above and lines[above - 1].lstrip().startswith(("from ", "import ")):
                above -= 1
            if "#" not in lines[line - 1] and not lines[above - 1].lstrip().startswith("#"):
                silent.append(f"{module.path.relative_to(ROOT)}:{line}: {lines[line - 1].strip()}")
    assert not silent
