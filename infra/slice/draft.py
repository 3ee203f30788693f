"""A draft of what a version's tables have to say: what is mechanical as data, the rest as what is to be decided."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from infra.slice.assemble import Slice
from infra.slice.errors import (
    CompiledCode,
    DeniedImport,
    MissingDefinition,
    MissingModule,
    OriginalChanged,
    OutsidePackage,
    SlowImport,
    UnsupportedShape,
)

_ROOT = Path(__file__).resolve().parents[2]
_FILE = '''"""The specification for vLLM {version}: what is not as in {tables}."""

from __future__ import annotations

from infra.slice.spec import Borrow, Cut
from infra.slice.versions import {module}
'''


def used_by_core(name: str, root: Path = _ROOT) -> str | None:
    """Where core first names something of vLLM, as file and line; None when it does not."""
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    for path in sorted((root / "core" / "upstream").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        # The contract names what core uses, and its own checks tell what is missing there.
        found = None if path.name == "contract.py" else pattern.search(text)
        if found is not None:
            return f"{path.relative_to(root).as_posix()}:{text.count(chr(10), 0, found.start()) + 1}"
    return None


def draft(version: str, tables: str, roots: Collection[str], found: Slice) -> list[str]:
    """Lines of a delta that answer the stops which have one mechanical answer, and drop what is unused.

    Parameters
    ----------
    version
        The version that was tried. Where it has no tables of its own, the lines are the file that it needs.
    tables
        The version whose tables were tried.
    roots
        The roots in these tables.
    found
        What came of them.
    """
    add: dict[str, set[str]] = {}
    drop: dict[str, set[str]] = {}
    by_hand: list[str] = []
    for stop in found.stops:
        if isinstance(stop, OutsidePackage) and stop.module in found.modules and found.modules[stop.module].source:
            kept = ", ".join(sorted(found.modules[stop.module].used))
            by_hand.append(f"{stop}: of the names that the cut keeps, {kept}, one is not needed (absent, given)")
        elif isinstance(stop, OutsidePackage) and find_spec(stop.name) is None:
            by_hand.append(f"{stop}, and is not installed: cut the module, or what imports it")
        elif isinstance(stop, OutsidePackage):
            add.setdefault("third_party_late" if "inside" in str(stop) else "third_party", set()).add(repr(stop.name))
        elif isinstance(stop, CompiledCode):
            add.setdefault("compiled", set()).add(repr(stop.module))
        elif isinstance(stop, SlowImport):
            add.setdefault("prompt", set()).add(f"{stop.module!r}: ({stop.name!r},)")
        elif isinstance(stop, MissingModule) and stop.needed_by == "the list of denied modules":
            drop.setdefault("denied", set()).add(repr(stop.module))
        elif isinstance(stop, MissingModule | MissingDefinition) and stop.needed_by == "the roots":
            named = _asked(stop, roots)
            places = list(filter(None, map(used_by_core, _names(named))))
            if named and not places:
                drop.setdefault("roots", set()).update(map(repr, named))
            else:
                who = f", which {places[0]} uses" if places else ""
                what = f"{stop.module}:{stop.name}" if stop.name else stop.module
                by_hand.append(f"{what}{who}: find it (moved), or take it from a version (borrow, given)")
        elif isinstance(stop, DeniedImport):
            by_hand.append(f"{stop.needed_by}: cut the module, or write {stop.module} by hand")
        elif isinstance(stop, OriginalChanged):
            by_hand.append(f"{stop.module}: compare it (`infra.slice diff`), then `infra.slice accept`")
        elif isinstance(stop, UnsupportedShape):
            by_hand.append(f"{stop}: a module that is code is cut, one of imports alone is lazy")
        else:
            by_hand.append(str(stop))
    for table, key in found.unused:
        if table in ("cut", "lazy", "memoize", "opaque", "absent", "compiled", "borrow"):
            drop.setdefault(table, set()).add(repr(key))
    module = "v{}_{}".format(*tables.split(".")[:2])
    head = [] if version == tables else [*_FILE.format(version=version, tables=tables, module=module).splitlines(), ""]
    return [*head, *_delta(version, module, add, drop, by_hand)]


def _asked(stop: MissingModule | MissingDefinition, roots: Collection[str]) -> list[str]:
    """The roots, or the name of one, that a stop comes from; empty where it is a package around them."""
    if isinstance(stop, MissingDefinition):
        return [f"{stop.module}:{stop.name}"]
    return [root for root in roots if root.partition(":")[0] == stop.module]


def _names(roots: Iterable[str]) -> Iterator[str]:
    """The names that roots ask for: definitions, or the last part of a module's."""
    for root in roots:
        module, _, names = root.partition(":")
        yield from names.split(",") if names else [module.rpartition(".")[2]]


def _delta(
    version: str, module: str, add: dict[str, set[str]], drop: dict[str, set[str]], by_hand: list[str]
) -> Iterator[str]:
    yield f"SPECIFICATION = {module}.SPECIFICATION.but("
    yield f'    version="{version}",'
    yield "    revision=1,"
    for word, tables_of in (("add", add), ("drop", drop)):
        if tables_of:
            yield f"    {word}={{"
            for table, keys in sorted(tables_of.items()):
                yield f'        "{table}": {{{", ".join(sorted(keys))}}},'
            yield "    },"
    yield ")"
    for line in by_hand:
        yield f"# to decide: {line}"
