"""The recorded render requests (`recorded.py`), answered to the letter, schema errors too; but for `max_tokens`."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.golden.application import running
from tests.golden.corpus import server_key
from tests.golden.deviations import is_written_limit
from tests.golden.difference import differences
from tests.golden.normal_form import IdNames
from tests.render.recorded import load


def _cases() -> list[tuple[str, list[dict[str, Any]]]]:
    return [(key, list(group)) for key, group in groupby(load(), key=lambda case: server_key(case["server"]))]


def _name(server: dict[str, Any]) -> str:
    values = (server.get(key) for key in ("model", "tool_call_parser", "reasoning_parser"))
    return "-".join(value for value in values if value)


_RECORDED = _cases()


def test_the_record_is_whole() -> None:
    assert sum(len(cases) for _, cases in _RECORDED) == 1145
    assert len(_RECORDED) == 24


@pytest.mark.parametrize(
    "cases", [cases for _, cases in _RECORDED], ids=[_name(cases[0]["server"]) for _, cases in _RECORDED]
)
def test_answers_as_recorded(models_dir: Path, cases: list[dict[str, Any]]) -> None:
    wrong = []
    with running(cases[0]["server"], models_dir, "checkpoint") as application:
        for case in cases:
            raw = json.dumps(case["request"]).encode()
            status, body = application.call("POST", case["endpoint"], raw, case["headers"])
            answer = IdNames().normalise({"status": status, "body": body})
            found = [one for one in differences(case["response"], answer) if not is_written_limit(one)]
            if found:
                wrong.append((case["endpoint"], case["request"], found[:3]))
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, the first: {wrong[0]}"
