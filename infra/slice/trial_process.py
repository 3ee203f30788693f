"""Run by `trial` with a slice first on the path: prints what is wrong with it, as a JSON list of lines."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from types import ModuleType
from typing import Any

from pydantic import BaseModel, TypeAdapter

from core.upstream.contract import LACKING, USES, Use


def _imported(names: list[str], wanting: dict[str, str]) -> Iterator[tuple[str, ModuleType | str]]:
    # xgrammar's wrappers of compiled objects need its library loaded first, which `Grammar` does.
    importlib.import_module("vllm._slice.xgrammar").Grammar  # noqa: B018 - loads it
    for name in names:
        try:
            yield name, importlib.import_module(name)
        except Exception as error:
            if not (name in wanting and isinstance(error, ImportError) and wanting[name] in str(error)):
                yield name, f"cannot be imported: {error!r}"


def _waiting(module: ModuleType) -> list[str]:
    """The names that the module loads on first use."""
    found = [*getattr(module, "_IMPORTS", ()), *getattr(module, "_LOADERS", ())]
    deferred = getattr(module, "_deferred", None)
    if deferred is not None:
        found += [*deferred._entries, *deferred._makers]
    return found


def _incomplete(value: Any) -> bool:
    if isinstance(value, type) and issubclass(value, BaseModel):
        if not value.__pydantic_complete__:
            value.model_rebuild(raise_errors=False)
        return not value.__pydantic_complete__
    if isinstance(value, type) and hasattr(value, "__pydantic_complete__"):
        return not value.__pydantic_complete__
    return isinstance(value, TypeAdapter) and not value.pydantic_complete and value.rebuild(raise_errors=False) is False


def _faults(contents: dict[str, Any], wanting: dict[str, str]) -> Iterator[str]:
    modules: list[ModuleType] = []
    for name, found in _imported(sorted(contents["modules"]), wanting):
        if isinstance(found, str):
            yield f"{name}: {found}"
        else:
            modules.append(found)
    for module in modules:
        for name in _waiting(module):
            try:
                getattr(module, name)
            except Exception as error:
                yield f"{module.__name__}.{name}: cannot be loaded: {error!r}"
    for module in modules:
        for name, value in sorted(vars(module).items()):
            if getattr(value, "__module__", module.__name__) in (module.__name__, "pydantic.type_adapter"):
                try:
                    incomplete = _incomplete(value)
                except Exception as error:
                    yield f"{module.__name__}.{name}: cannot be completed: {error!r}"
                    continue
                if incomplete:
                    yield f"{module.__name__}.{name}: a pydantic model that is not fully defined"


def _bound(use: Use, target: Any, lacking: frozenset[str]) -> str | None:
    """Why the definition cannot be called as it is; None when it can, or is not."""
    if use.given is None:
        return None
    function = use.name.rpartition(".")[2].rpartition(":")[2]
    named = [name for name in use.named if f"{function}.{name}" not in lacking]
    try:
        inspect.signature(target).bind(*[None] * use.given, **dict.fromkeys(named))
    except TypeError as error:
        return f"{error}"
    return None


def _breaches(version: str) -> Iterator[str]:
    """Where the slice does not have what core uses, or not in the form in which core uses it."""
    lacking = LACKING.get(version, frozenset())
    for use in USES:
        if use.name in lacking:
            continue
        module, _, path = use.name.partition(":")
        try:
            target = importlib.import_module(module)
            for part in path.split("."):
                target = getattr(target, part)
        except (ImportError, AttributeError) as error:
            yield f"{use.name}: core uses it, and it is not there: {error}"
            continue
        wrong = _bound(use, target, lacking)
        if wrong is not None:
            yield f"{use.name}: core calls it otherwise than it is defined: {wrong}"
        for attribute in use.attributes:
            if not hasattr(target, attribute) and attribute not in getattr(target, "__annotations__", ()):
                yield f"{use.name}: core reads {attribute!r} of it, and it has none"


def main() -> None:
    contents = json.loads(files("vllm._slice").joinpath("contents.json").read_text(encoding="utf-8"))
    wanting = json.loads(sys.argv[1])
    found = [*_faults(contents, wanting), *_breaches(contents["version"].partition("+")[0])]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
