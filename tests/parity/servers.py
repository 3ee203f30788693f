"""A part of the recorded corpus against real servers: vLLM's `launch render`, and ours.

Both get the same cases. vLLM's must answer as recorded in every case, with no
deviation allowed, or the recording is no longer what vLLM answers. Ours must
answer as recorded, and as vLLM's answered in the same run, but for the accepted
deviations (``tests/golden/deviations.py``). An answer of 500 or above fails the
comparison on whichever side it is: an environment that is broken for both
would agree with itself.
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
from tests.golden.corpus import Case, Json
from tests.golden.deviations import DEVIATIONS, Deviation
from tests.golden.replay import http_call, run_case
from tests.golden.verdict import Verdict, judge
from tests.parity.configurations import CONFIGURATIONS, Server, title
from tests.parity.reference import Reference
from tests.support.servers import free_port, running

# Full vLLM reads thousands of modules; on a cold disk that takes minutes.
_START_SECONDS = 300
_SERVER_FAULT = 500


@dataclass(frozen=True)
class Tally:
    """How both servers answered the cases of a configuration; what was not accepted is told of case by case."""

    configuration: str
    cases: int
    calls: int
    deviations: int
    """Cases in which ours differs from the recording as an accepted deviation says."""
    recording: tuple[str, ...] = ()
    """vLLM's answers that are not the recorded ones."""
    ours: tuple[str, ...] = ()
    """Our answers that are neither the recorded ones nor an accepted deviation."""
    direct: tuple[str, ...] = ()
    """Our answers that are neither vLLM's of this run nor an accepted deviation from them."""
    broken: tuple[str, ...] = ()
    """Answers of either side with a status of 500 or above."""

    @property
    def reports(self) -> dict[str, tuple[str, ...]]:
        """What was not accepted, by what it was compared with."""
        return {
            "vLLM against the recording": self.recording,
            "ours against the recording": self.ours,
            "ours against vLLM": self.direct,
            "failed": self.broken,
        }


def compared(server: Server, reference: Reference, models: Path, cases: Sequence[Case], logs: Path) -> Tally:
    """Start both servers, one after the other, and compare their answers.

    vLLM's state is the replaying one, so its states are compared with the recording too. Ours runs as it is deployed:
    with checkpointed states.
    """
    command = [reference.python, "-m", "vllm.entrypoints.cli.main", "launch", "render"]
    with _running(command, server, models, reference.environ(), logs / "vllm.log") as url:
        theirs = answers(url, cases)
    command = [sys.executable, "-m", "handlers.commands", "serve"]
    # Some pairs of a parser and a model no deployment would have: vLLM serves them without a word.
    environ = {**os.environ, "DERENDER_PARSER_FAMILY": "any"}
    with _running(command, server, models, environ, logs / "derender.log") as url:
        ours = answers(url, cases)
    return tally(title(server), cases, theirs, ours)


def answers(url: str, cases: Sequence[Case]) -> list[Json]:
    """What a running server answers to each case."""
    call = http_call(url)
    return [run_case(copy.deepcopy(case), call) for case in cases]


def tally(
    configuration: str,
    cases: Sequence[Case],
    theirs: Sequence[Json],
    ours: Sequence[Json],
    deviations: Sequence[Deviation] = DEVIATIONS,
) -> Tally:
    """Compare the answers of full vLLM and ours, in the order of the cases, with the recording and with each other."""
    recording, own, direct, broken, accepted = [], [], [], [], 0
    for case, their, our in zip(cases, theirs, ours, strict=True):
        name = case["id"]
        verdict = judge(case, their, "replay", ())
        recording += _told(name, verdict)
        verdict = judge(case, our, "checkpoint", deviations)
        accepted += verdict.deviation is not None and verdict.accepted
        own += _told(name, verdict)
        direct += _told(name, judge(recorded_as(case, their), our, "checkpoint", deviations))
        broken += [f"{side}: {name}" for side, one in (("vLLM", their), ("ours", our)) if _failed(one)]
    calls = sum(len(case["stream"]["chunks"]) if "stream" in case else 1 for case in cases)
    return Tally(configuration, len(cases), calls, accepted, tuple(recording), tuple(own), tuple(direct), tuple(broken))


def recorded_as(case: Case, answer: Json) -> Case:
    """The case as if this answer were the recorded one."""
    if "stream" in case:
        return {**case, "stream": {**case["stream"], "responses": answer}}
    return {**case, "response": answer}


def _told(name: str, verdict: Verdict) -> list[str]:
    return [] if verdict.accepted else [f"{name}\n{verdict.report(limit=5)}"]


def _failed(answer: Json) -> bool:
    """Whether an answer, or one of a stream's, is a server's own fault."""
    statuses = [one["status"] for one in (answer if isinstance(answer, list) else [answer])]
    return any(status >= _SERVER_FAULT for status in statuses)


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
    """Three rows a configuration, as a Markdown table: vLLM and ours with the recording, ours with vLLM's answers."""
    lines = [
        "| configuration | server | cases | calls | accepted deviations | different |",
        "|---|---|---|---|---|---|",
    ]
    for one in tallies:
        failed = [sum(report.startswith(f"{side}: ") for report in one.broken) for side in ("vLLM", "ours")]
        for side, deviations, different in (
            ("vLLM", 0, len(one.recording) + failed[0]),
            ("ours", one.deviations, len(one.ours) + failed[1]),
            ("ours, with vLLM's", one.deviations, len(one.direct)),
        ):
            lines.append(f"| {one.configuration} | {side} | {one.cases} | {one.calls:,} | {deviations} | {different} |")
    return lines


@contextmanager
def _running(command: list[str], server: Server, models: Path, environ: dict[str, str], log: Path) -> Iterator[str]:
    """A server of one configuration, from its first answer to the end of the block."""
    port = free_port()
    whole = [*command, *flags(server, models), "--host", "127.0.0.1", "--port", str(port)]
    with running(whole, port, seconds=_START_SECONDS, environ={**environ, **server.get("env", {})}, log=log):
        yield f"http://127.0.0.1:{port}"
