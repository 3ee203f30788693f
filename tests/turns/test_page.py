"""The page of results: its sums are those of its rows, and what it promises is what was measured."""

from __future__ import annotations

import re

from tests.turns import page
from tests.turns.conversation import Tally

WRITTEN = page.PATH.read_text(encoding="utf-8")


def cells(text: str, columns: int) -> list[list[str]]:
    found = [re.split(r" *\| *", line.strip().strip("|").strip()) for line in text.splitlines() if line.startswith("|")]
    return [row for row in found if len(row) == columns][2:]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_the_written_page() -> None:
    rows = [row for row in cells(WRITTEN, 8) if row[-1].startswith("×")]
    families, total = rows[:-1], rows[-1]
    assert len(families) >= 12
    assert total[0] == "all"
    assert sum(number(row[1]) for row in families) == number(total[1])
    exact = re.search(r"Under `exact` ([\d,]+) turns were rendered", WRITTEN)
    assert exact is not None
    assert number(exact[1]) >= 5000
    assert re.search(r"in 0 the ids' text was not that of the plain prompt", WRITTEN)
    assert re.search(r"In 0 of [\d,]+ turns of all policies a sampled span", WRITTEN)
    assert re.search(r"changed, 0 kept their ids", WRITTEN)
    assert all(float(row[6]) <= 1 / 3 for row in cells(WRITTEN, 8) if row[1].startswith("`"))


def test_a_run_writes_a_page_of_that_form() -> None:
    tally = Tally(turns=40, drifting=10, ids=1000, lost=50, whole=40, size=1100, plain_size=1000, edits=7)
    row = {"family": "f", "policy": "exact", "mode": "full", "tokens": 32_000, "plain_ms": 90.0, "continued_ms": 9.0}
    costs = [{**row, "known_ms": 20.0, "ratio": 0.1}]
    written = page.text(
        {"f": dict.fromkeys(page.POLICIES, tally)}, 3, "1", costs, [{"part": "p", "bytes": 5, "gzip": 3}]
    )
    assert "Under `append` 40 of\n40 turns kept all ids (100.00%)" in written
    assert "| f | 40 | 25% | 5.0% | 100% | 100% | 100% | ×1.10 |" in written
    assert "| f | `exact` | full | 32,000 | 90.0 | 9.0 | 0.10 | 20.0 |" in written
    assert written.split("\n\n")[0] == WRITTEN.split("\n\n")[0]
