"""A part of the recorded corpus against real servers: vLLM's `launch render`, and ours.

vLLM's must answer as recorded in every case, with no deviation allowed, or the
recording is no longer what vLLM answers. Ours must answer as recorded but for
the accepted deviations (``tests/golden/deviations.py``).
"""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.golden import corpus
from tests.golden.corpus import Case, Mode
from tests.golden.deviations import DEVIATIONS, Deviation
from tests.golden.replay import http_call, run_case
from tests.golden.verdict import judge
from tests.parity.configurations import CONFIGURATIONS, Server, title
from tests.parity.reference import Reference
from tests.support.servers import free_port, running

# Full vLLM reads thousands of modules; on a cold disk that takes minutes.
_START_SECONDS = 300


@dataclass(frozen=True)
class Tally:
    """How one server answered the cases of its configuration; ``reports`` tells of every case not accepted."""

    side: str
    configuration: str
    cases: int
    calls: int
    deviations: int
    reports: tuple[str, ...]


def tally_vllm(server: Server, reference: Reference, models: Path, cases: Sequence[Case], log: Path) -> Tally:
    """Full vLLM's server. Its state is the replaying one, so states are compared too."""
    command = [reference.python, "-m", "vllm.entrypoints.cli.main", "launch", "render"]
    with _running(command, server, models, reference.environ(), log) as url:
        return replayed("vLLM", server, url, cases, "replay", ())


def tally_ours(server: Server, models: Path, cases: Sequence[Case], log: Path) -> Tally:
    """Our server, as it is deployed: with checkpointed states."""
    with _running([sys.executable, "-m", "handlers.commands", "serve"], server, models, dict(os.environ), log) as url:
        return replayed("ours", server, url, cases, "checkpoint", DEVIATIONS)


def replayed(
    side: str, server: Server, url: str, cases: Sequence[Case], mode: Mode, deviations: Sequence[Deviation]
) -> Tally:
    """Send the cases to a running server and judge its answers."""
    call, accepted, reports = http_call(url), 0, []
    for case in cases:
        verdict = judge(case, run_case(copy.deepcopy(case), call), mode, deviations)
        accepted += verdict.deviation is not None and verdict.accepted
        if not verdict.accepted:
            reports.append(f"{case['id']}\n{verdict.report(limit=5)}")
    calls = sum(len(case["stream"]["chunks"]) if "stream" in case else 1 for case in cases)
    return Tally(side, title(server), len(cases), calls, accepted, tuple(reports))


def cases_of(server: Server, cases: Sequence[Case], core: bool) -> list[Case]:
    """The recorded cases of one configuration.

    Raises:
        ValueError: there are none, so nothing would be compared.
    """
    key = corpus.server_key(server)
    found = [case for case in cases if corpus.server_key(case["server"]) == key and (case["core"] or not core)]
    if not found:
        raise ValueError(f"no recorded case for {key}")
    return found


def further(cases: Sequence[Case]) -> list[Server]:
    """The configurations of these cases that ``CONFIGURATIONS`` lacks."""
    known = {corpus.server_key(server) for server in CONFIGURATIONS}
    found = {corpus.server_key(case["server"]): case["server"] for case in cases}
    return [server for key, server in found.items() if key not in known]


def flags(server: Server, models: Path) -> list[str]:
    """A configuration as both servers' command line spells it."""
    words = [str(models / server["model"]), "--served-model-name", server["model"]]
    for name, value in server.items():
        if name in ("model", "env"):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(value if isinstance(value, str) else json.dumps(value))
    return words


def table(tallies: Sequence[Tally]) -> list[str]:
    """One row a configuration and server, as a Markdown table."""
    lines = [
        "| configuration | server | cases | calls | accepted deviations | different |",
        "|---|---|---|---|---|---|",
    ]
    for one in tallies:
        counts = f"{one.cases} | {one.calls:,} | {one.deviations} | {len(one.reports)}"
        lines.append(f"| {one.configuration} | {one.side} | {counts} |")
    return lines


@contextmanager
def _running(command: list[str], server: Server, models: Path, environ: dict[str, str], log: Path) -> Iterator[str]:
    """A server of one configuration, from its first answer to the end of the block."""
    port = free_port()
    whole = [*command, *flags(server, models), "--host", "127.0.0.1", "--port", str(port)]
    with running(whole, port, seconds=_START_SECONDS, environ={**environ, **server.get("env", {})}, log=log):
        yield f"http://127.0.0.1:{port}"
