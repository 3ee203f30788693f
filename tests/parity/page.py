"""The pages of results: ``docs/results/parity.md``, and one for each older version, made from whole runs."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from infra.slice.versions import NEWEST
from tests.parity import parsers, servers
from tests.parity.parsers import Comparison
from tests.parity.reference import ROOT

FOLDER = ROOT / "docs" / "results"
_NEWEST = """# Parity with full vLLM: results

`make parity ARGS="--all-cases --write"` writes this page; [parity.md](../parity.md) says what is compared.

{date}, vLLM {vllm}, Python {python}: {cases:,} parser cases, {recorded:,} recorded cases with {calls:,} calls to each
server. {parsers_different} parser cases and {servers_different} calls differ.

## Servers

Every configuration with recorded requests, with all recorded cases of it. vLLM's server is compared with the recording, ours
with the recording and with what vLLM's answered in the same run. "ours" may differ only as `tests/golden/deviations.py`
says: {deviations} cases. An answer of 500 or above counts as different.

{servers}
"""
_OLDER = """# Parity with full vLLM {vllm}: results

`make parity VERSION={vllm} ARGS=--write` writes this page; [parity.md](../parity.md) says what is compared.

{date}, vLLM {vllm}, Python {python}: {cases:,} parser cases. {parsers_different} differ.
"""
_PARSERS = """
## Parsers

`+` joins a tool and a reasoning parser. Refused: both sides gave the same error, for example because the tokenizer
lacks a parser's tokens (compose), or because the parser cannot read a test's output. `beam`, `hf` and the Cohere
parsers need what no model folder here has; their refusals are compared.

{parsers}
"""


def text(version: str, comparison: Comparison, tallies: Sequence[servers.Tally]) -> str:
    """The page of a version; the servers' results are those of the newest alone."""
    return (_NEWEST if version == NEWEST else _OLDER).format(
        date=datetime.now(UTC).date(),
        vllm=version,
        python=platform.python_version(),
        cases=len(comparison.theirs),
        recorded=sum(tally.cases for tally in tallies),
        calls=sum(tally.calls for tally in tallies),
        parsers_different=sum(len(row.different) for row in comparison.rows),
        servers_different=sum(len(told) for tally in tallies for told in tally.reports.values()),
        deviations=sum(tally.deviations for tally in tallies),
        servers="\n".join(servers.table(tallies)),
    ) + _PARSERS.format(parsers="\n".join(parsers.table(comparison.rows)))


def path(version: str) -> Path:
    """Where the documents link to the page of a version."""
    return FOLDER / ("parity.md" if version == NEWEST else f"parity-{version}.md")


def write(version: str, comparison: Comparison, tallies: Sequence[servers.Tally]) -> None:
    """Put the page there."""
    path(version).write_text(text(version, comparison, tallies), encoding="utf-8")
