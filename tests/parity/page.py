"""``docs/results/parity.md``, made from a whole run."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from infra.slice.versions import NEWEST
from tests.parity import parsers, servers
from tests.parity.reference import ROOT

PATH = ROOT / "docs" / "results" / "parity.md"
_PAGE = """# Parity with full vLLM: results

`make parity ARGS="--all-cases --write"` writes this page; [parity.md](../parity.md) says what is compared.

{date}, vLLM {vllm}, Python {python}: {cases:,} parser cases, {recorded:,} recorded cases with {calls:,} calls to each
server. {parsers_different} parser cases and {servers_different} calls differ.

## Servers

Every configuration with recorded requests, with all recorded cases of it. "ours" may differ only as
`tests/golden/deviations.py` says: {deviations} cases.

{servers}

## Parsers

`+` joins a tool and a reasoning parser. Refused: both sides gave the same error, for example because the tokenizer
lacks a parser's tokens (compose), or because the parser cannot read a test's output. `beam`, `hf` and the Cohere
parsers need what no model folder here has; their refusals are compared.

{parsers}
"""


def text(rows: Sequence[parsers.Row], tallies: Sequence[servers.Tally], cases: int) -> str:
    """The page; ``cases`` is the number of parser cases."""
    ours = [tally for tally in tallies if tally.side == "ours"]
    return _PAGE.format(
        date=datetime.now(UTC).date(),
        vllm=NEWEST,
        python=platform.python_version(),
        cases=cases,
        recorded=sum(tally.cases for tally in ours),
        calls=sum(tally.calls for tally in ours),
        parsers_different=sum(len(row.different) for row in rows),
        servers_different=sum(len(tally.reports) for tally in tallies),
        deviations=sum(tally.deviations for tally in ours),
        servers="\n".join(servers.table(tallies)),
        parsers="\n".join(parsers.table(rows)),
    )


def write(rows: Sequence[parsers.Row], tallies: Sequence[servers.Tally], cases: int, path: Path = PATH) -> None:
    """Put the page where the documents link to it."""
    path.write_text(text(rows, tallies, cases), encoding="utf-8")
