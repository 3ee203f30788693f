"""Run by `trial` with a slice first on the path: prints what is wrong with it, as a JSON list of lines."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from types import ModuleType
from typing import Any

from pydantic import BaseModel, TypeAdapter


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


def main() -> None:
    contents = json.loads(files("vllm._slice").joinpath("contents.json").read_text(encoding="utf-8"))
    wanting = json.loads(sys.argv[1])
    print(json.dumps(list(_faults(contents, wanting))))


if __name__ == "__main__":
    main()
