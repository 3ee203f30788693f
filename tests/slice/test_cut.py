"""SLICE: cutting a module down by its syntax tree."""

import ast

import pytest

from infra.slice.cut import cut
from infra.slice.errors import MissingDefinition, UnsupportedShape

MODULE = '''\
# A licence line.
"""Heavy."""
import json as js, os
from typing import TYPE_CHECKING, Any

import heavy
from heavy.parts import Big, small as little

if TYPE_CHECKING:
    from elsewhere import Thing
else:
    lazy = LazyLoader("lazy", globals(), "lazy_package")

LIMIT = 3
TABLE = {}
TABLE["a"] = LIMIT
OTHER = Big()


def wanted(value: Big, *, limit=LIMIT) -> Thing:
    """Its comment stays."""
    # as does this one
    from inside import function_level

    return helper(function_level(js.dumps(value)), TABLE, limit)


@decorate
def helper(*arguments): return lazy.call(arguments)


def decorate(function): return function


class Model:
    field: Big
    other: "Thing" = LIMIT

    def method(self) -> OTHER:
        return little


def LazyLoader(*arguments): return arguments


def unwanted():
    return heavy, os
'''


def _names(text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(text).body:
        for each in ast.walk(node):
            if isinstance(each, ast.alias):
                found.add(each.asname or each.name)
        if hasattr(node, "name"):
            found.add(node.name)
        if isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return found


def _cut(*names: str, **options: bool) -> str:
    return cut("upstream.module", MODULE, names, needed_by="the test", **options)


def test_keeps_what_is_referenced_and_nothing_else() -> None:
    text = _cut("wanted")
    assert {"wanted", "helper", "decorate", "js", "LIMIT", "TABLE", "function_level", "LazyLoader"} <= _names(text)
    assert not {"heavy", "os", "Big", "little", "unwanted", "Model", "OTHER"} & _names(text)


def test_annotations_are_not_followed_and_not_evaluated() -> None:
    text = _cut("wanted")
    assert "from __future__ import annotations" in text
    assert "value: Big" in text
    assert "import Big" not in text


def test_lazy_loaders_statements_on_kept_names_and_comments_stay() -> None:
    text = _cut("wanted")
    assert 'lazy = LazyLoader("lazy", globals(), "lazy_package")' in text
    assert 'TABLE["a"] = LIMIT' in text
    assert "# as does this one" in text
    assert "@decorate" in text
    assert text.startswith("# A licence line.\n")


def test_class_fields_are_followed_on_demand() -> None:
    assert "Big" not in _names(_cut("Model"))
    assert {"Big", "LIMIT", "little"} <= _names(_cut("Model", fields_of_classes=True))


def test_the_result_runs() -> None:
    scope: dict[str, object] = {"__name__": "cut"}
    exec(_cut("decorate", "LIMIT"), scope)
    assert scope["LIMIT"] == 3


def test_missing_definition_stops_with_its_name() -> None:
    with pytest.raises(MissingDefinition) as caught:
        _cut("wanted", "renamed_upstream")
    assert (caught.value.module, caught.value.name) == ("upstream.module", "renamed_upstream")
    assert "renamed_upstream" in str(caught.value)


def test_type_checking_names_are_not_definitions() -> None:
    with pytest.raises(MissingDefinition):
        _cut("Thing")


def test_star_imports_are_refused() -> None:
    with pytest.raises(UnsupportedShape):
        cut("m", "from x import *\na = 1\n", ["a"], needed_by="the test")
