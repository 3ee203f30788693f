"""An answer against its recording, and against what is listed of it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.dialects.deviations import Deviation
from tests.dialects.recorded import Case, Json
from tests.golden.difference import Difference


def judge(case: Case, got: Json, found: Sequence[Difference], listed: Sequence[Deviation]) -> str | None:
    """What is wrong with an answer that differs so from its recording; None when nothing is, or it is listed."""
    deviation = next((one for one in listed if one.covers(case["id"])), None)
    if deviation is None:
        return None if not found else f"{case['id']}: {found[:3]}"
    if not found:
        return f"{case['id']} answers as recorded: take it off the list"
    return None if deviation.check(case["response"], got) else f"{case['id']} is not as its deviation says: {got}"
