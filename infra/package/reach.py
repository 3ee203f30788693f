"""Which of this project's own modules a function loads: those that its entry module reaches by import statements.

Statements inside functions count as well: a late import still loads its
module. The project imports its own modules by statement only, so the walk finds
them all. It does not follow third-party packages. The doors of a dialect are
imported by name of what a function does (``core.dialects``): a function's
package holds those that it opens.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from infra.package.errors import PackageError

# The tree's packages that may be shipped; what builds and tests is not among them.
PACKAGES = ("core", "handlers")
DOORS = frozenset({"render", "derender", "relay"})
_DOOR = re.compile(r"core\.dialects\.\w+\.(\w+)")


def reachable(module: str, root: Path, doors: Collection[str] = DOORS) -> dict[str, Path]:
    """The source files below ``root`` that a start of ``module`` may load, by dotted name.

    ``doors`` are those of the dialects that it opens.

    Raises:
        PackageError: the module does not exist.
    """
    if _source(module, root) is None:
        raise PackageError(f"there is no module {module} to package")
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _source(name, root)
        if name in found or path is None or _is_closed(name, doors):
            continue
        found[name] = path
        waiting.extend(_imports(name, path))
        package, _, _ = name.rpartition(".")
        if package:
            waiting.append(package)
    return dict(sorted(found.items()))


def data_files(modules: Mapping[str, Path]) -> list[Path]:
    """What is no module and lies in a package among ``modules`` (those of :func:`reachable`): its code reads it."""
    folders = sorted({path.parent for path in modules.values() if path.name == "__init__.py"})
    return sorted(path for folder in folders for path in folder.iterdir() if path.is_file() and not path.match("*.py*"))


def _is_closed(module: str, doors: Collection[str]) -> bool:
    door = _DOOR.fullmatch(module)
    return door is not None and door[1] in DOORS and door[1] not in doors


def _source(module: str, root: Path) -> Path | None:
    if module.split(".", 1)[0] not in PACKAGES:
        return None
    path = root.joinpath(*module.split("."))
    return next((p for p in (path / "__init__.py", path.with_suffix(".py")) if p.is_file()), None)


def _imports(module: str, path: Path) -> list[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            # The names may be modules of the package.
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All that may run; imports for types alone never do."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _statements(child)
