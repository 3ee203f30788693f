"""Answers of vLLM 0.33.0's own render server to generated requests, beside the golden corpus.

`data/recorded.jsonl.gz` holds 1,145 requests drawn at random over the fields of
the three endpoints, valid and not, and over 24 server configurations, in the
corpus's form (`tests/golden/README.md`). Unlike the corpus they are compared to
the letter, schema errors too. Requests over which vLLM answers a 500, and the
deviations that this project makes on purpose, were left out.
"""

from __future__ import annotations

import gzip
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.golden.application import running
from tests.golden.corpus import server_key
from tests.golden.difference import differences
from tests.golden.normal_form import IdNames

_DATA = Path(__file__).parent / "data" / "recorded.jsonl.gz"


def _cases() -> list[tuple[str, list[dict[str, Any]]]]:
    cases = [json.loads(line) for line in gzip.decompress(_DATA.read_bytes()).decode().split("\n") if line]
    by_server = groupby(cases, key=lambda case: server_key(case["server"]))
    return [(key, list(group)) for key, group in by_server]


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
            headers = {"content-type": "application/json", **case.get("headers", {})}
            status, body = application.call("POST", case["endpoint"], raw, headers)
            answer = IdNames().normalise({"status": status, "body": body})
            found = differences(case["response"], answer)
            if found:
                wrong.append((case["endpoint"], case["request"], found[:3]))
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, the first: {wrong[0]}"
