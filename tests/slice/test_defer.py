"""DEFER: imports that wait for their first use. The rewritten modules are run, not only read."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from infra.slice.defer import defer
from infra.slice.errors import MissingDefinition, UnsupportedShape

HEAVY = "class Big: ...\nclass Other: ...\ndef call(x): return ('called', x)\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Writes a module with deferred names next to a heavy one, and imports it."""
    folder = tmp_path / "deferred_test"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "heavy.py").write_text(HEAVY)
    monkeypatch.syspath_prepend(str(tmp_path))

    def build(text: str, *names: str, opaque: tuple[str, ...] = ()) -> ModuleType:
        source, _ = defer("deferred_test.user", "deferred_test", text, names, "the test", opaque=opaque)
        (folder / "user.py").write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module("deferred_test.user")

    yield build
    for name in [name for name in sys.modules if name.startswith("deferred_test")]:
        del sys.modules[name]


def _heavy_is_loaded() -> bool:
    return "deferred_test.heavy" in sys.modules


def test_loads_on_first_use(package: Callable[..., ModuleType]) -> None:
    user = package("from .heavy import (\n    call as c,\n    Big,\n)\ndef f(x):\n    return c(x)\n", "c", "Big")
    assert not _heavy_is_loaded()
    assert user.f(1) == ("called", 1)
    assert _heavy_is_loaded()


def test_type_check_does_not_load(package: Callable[..., ModuleType]) -> None:
    user = package("from .heavy import Big, Other\ndef f(x): return isinstance(x, (int, Big, Other))\n", "Big", "Other")
    assert user.f(1) is True
    assert user.f("") is False
    assert not _heavy_is_loaded()
    heavy = importlib.import_module("deferred_test.heavy")
    assert user.f(heavy.Big()) is True
    assert user.f("") is False


def test_type_check_against_an_alias(package: Callable[..., ModuleType]) -> None:
    user = package("from .heavy import Big, Other\nBOTH = (Big, Other)\ndef f(x): return isinstance(x, BOTH)\n",
                   "Big", "Other", "BOTH")  # fmt: skip
    heavy = importlib.import_module("deferred_test.heavy")
    assert user.f(heavy.Other()) is True
    assert user.f(1) is False


def test_module_and_nested_uses(package: Callable[..., ModuleType]) -> None:
    user = package(
        "import deferred_test.heavy as h\n"
        "def f(x):\n    g = lambda y: h.call(y)\n    return [g(z) for z in x if h.Big]\n",
        "h",
    )
    assert not _heavy_is_loaded()
    assert user.f([1]) == [("called", 1)]


def test_others_can_import_the_name(package: Callable[..., ModuleType]) -> None:
    user = package("from .heavy import Big\nAlias: object = list[Big]\n", "Big", "Alias")
    assert not _heavy_is_loaded()
    assert user.Big is importlib.import_module("deferred_test.heavy").Big
    assert user.Alias is user.Alias
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        user.nothing  # noqa: B018


def test_annotations_are_quoted_only_where_they_name_it(package: Callable[..., ModuleType]) -> None:
    user = package(
        "from .heavy import Big\n"
        "def f(a: int, b: list[Big] | None = None) -> Big | None:\n    c: Big = b\n    return c\n"
        "CONSTANT: dict[str, Big] = {}\n",
        "Big",
    )
    assert user.f.__annotations__ == {"a": int, "b": "list[Big] | None", "return": "Big | None"}
    assert not _heavy_is_loaded()


def test_opaque_field_types(package: Callable[..., ModuleType]) -> None:
    user = package(
        "from typing import Annotated\nfrom . import heavy as h\nclass A:\n    x: Annotated[h.Big, 1]\n",
        "h", opaque=("h.Big",),
    )  # fmt: skip
    assert str(user.A.__annotations__["x"]) == "typing.Annotated[object, 1]"


def test_lines_keep_their_order() -> None:
    text = "import a\nfrom .heavy import (\n    call,\n    Big,\n)\n\ndef f():\n    return call()\n"
    source, _ = defer("m", "p", text, ["call", "Big"], "the test")
    # Three lines are added at the top, none elsewhere.
    assert source.splitlines().index("def f():") == text.splitlines().index("def f():") + 3


@pytest.mark.parametrize(
    "text",
    [
        "from .heavy import Big\nx = Big()\n",
        "from .heavy import Big\nclass A(Big): ...\n",
        "from .heavy import Big\nclass A:\n    field: Big\n",
        "from .heavy import Big\nclass A:\n    field: 'list[Big]'\n",
        "from .heavy import Big\ndef f(x=Big): ...\n",
        "from .heavy import Big\n@Big\ndef f(): ...\n",
    ],
)
def test_use_at_import_time_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedShape, match="Big"):
        defer("m", "p", text, ["Big"], "the test")


@pytest.mark.parametrize(
    "text",
    [
        "from .heavy import Big\ndef f(Big): ...\n",
        "from .heavy import Big\ndef f():\n    Big = 1\n",
        "from .heavy import Big\ndef f():\n    from x import Big\n",
        "from .heavy import Big\nclass Big: ...\n",
    ],
)
def test_second_binding_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedShape, match="Big"):
        defer("m", "p", text, ["Big"], "the test")


def test_missing_import_stops_with_its_name() -> None:
    with pytest.raises(MissingDefinition, match="Gone"):
        defer("m", "p", "from .heavy import Big\n", ["Gone"], "the test")
