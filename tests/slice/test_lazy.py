"""LAZY: package inits whose names load on first use."""

import sys
from pathlib import Path

import pytest

from infra.slice.errors import MissingDefinition, UnsupportedShape
from infra.slice.lazy import lazy_module, lazy_names
from infra.slice.sources import ModuleSource


def _source(text: str, name: str = "lazy_test") -> ModuleSource:
    return ModuleSource(name, f"{name}/__init__.py", True, text)


def _table(text: str, starred: str = "") -> dict:
    return lazy_names(_source(text), lambda name: _source(starred, name), "the test")


def test_names_load_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        '"""Doc."""\nfrom lazy_test.maker import make\nfrom .parts import Part as P\nfrom .other import Other\n'
        "A, B = make(P)\n__all__ = ['A', 'B']\n"
    )
    folder = tmp_path / "lazy_test"
    folder.mkdir()
    (folder / "maker.py").write_text("def make(x): return (x, 'a'), (x, 'b')\n")
    (folder / "parts.py").write_text("Part = 'part'\n")
    (folder / "other.py").write_text("Other = 1\n")
    (folder / "__init__.py").write_text(lazy_module(_source(text), _table(text), ["A", "Other"]))
    monkeypatch.syspath_prepend(str(tmp_path))
    import lazy_test  # type: ignore[import-not-found]

    try:
        assert "lazy_test.parts" not in sys.modules
        assert lazy_test.B == ("part", "b")
        assert lazy_test.A == ("part", "a")
        assert "lazy_test.other" not in sys.modules
        assert lazy_test.Other == 1
        with pytest.raises(AttributeError, match="'nothing'"):
            lazy_test.nothing  # noqa: B018
    finally:
        for name in [name for name in sys.modules if name.startswith("lazy_test")]:
            del sys.modules[name]


def test_star_imports_take_the_names_of_all() -> None:
    table = _table("from .x import *\nfrom .x import __all__ as names\n", "__all__ = ['One', 'Two']\n")
    assert {name: table[name].origin for name in table} == {"One": "lazy_test.x", "Two": "lazy_test.x"}


def test_star_import_without_all_stops() -> None:
    with pytest.raises(MissingDefinition, match="__all__"):
        _table("from .x import *\n", "One = 1\n")


def test_a_module_that_does_more_is_refused() -> None:
    with pytest.raises(UnsupportedShape, match="line 2"):
        _table("from .x import y\ny.register()\n")


def test_a_name_that_is_gone_stops() -> None:
    with pytest.raises(MissingDefinition, match="Gone"):
        lazy_module(_source("from .x import y\n"), _table("from .x import y\n"), ["Gone"])
