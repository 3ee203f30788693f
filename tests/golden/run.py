"""A quick run of the corpus in this process, for work on the service.

    python -m tests.golden.run                         everything, a table by group
    python -m tests.golden.run --group errors -v       one group, all differences and the requests
    python -m tests.golden.run --server-filter hermes --failed
    python -m tests.golden.run --id 'parser.hermes.*' --mode both

It judges exactly as the tests do, but goes on after an application that does not start.
"""

import argparse
import json
import logging
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.golden import corpus
from tests.golden.application import running
from tests.golden.corpus import Case, Mode
from tests.golden.replay import run_case
from tests.golden.verdict import Verdict, judge

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "build" / "models"
FAILED = ROOT / "build" / "golden-failed.json"


@dataclass(frozen=True)
class Outcome:
    """One case in one state mode: a verdict, or the exception that came instead of an answer."""

    case: Case
    mode: Mode
    seconds: float
    verdict: Verdict | None = None
    error: str = ""

    @property
    def passed(self) -> bool:
        return self.verdict is not None and self.verdict.accepted


def outcomes(cases: list[Case], models_dir: Path, modes: tuple[Mode, ...]) -> Iterator[Outcome]:
    """Run the cases, one application per configuration and mode."""
    for mode in modes:
        # A case that no mode can change is run once, in the first mode asked for.
        wanted = [case for case in cases if mode == modes[0] or mode in corpus.modes_of(case)]
        for _, group in groupby(corpus.by_server(wanted), key=lambda case: corpus.server_key(case["server"])):
            yield from _server_outcomes(list(group), models_dir, mode)


def _server_outcomes(cases: list[Case], models_dir: Path, mode: Mode) -> Iterator[Outcome]:
    started = False
    try:
        with running(cases[0]["server"], models_dir, mode) as application:
            started = True
            for case in cases:
                begun = time.perf_counter()
                try:
                    verdict = judge(case, run_case(case, application.call), mode)
                    yield Outcome(case, mode, time.perf_counter() - begun, verdict)
                except Exception:
                    yield Outcome(case, mode, time.perf_counter() - begun, error=traceback.format_exc())
    except Exception:
        if started:
            raise
        error = traceback.format_exc()
        yield from (Outcome(case, mode, 0.0, error=f"the application did not start\n{error}") for case in cases)


def _print_failure(outcome: Outcome, limit: int | None, verbose: bool, seen_errors: Counter[str]) -> None:
    case = outcome.case
    print(f"FAIL {case['id']}  [{outcome.mode}]  {case['endpoint']}  {corpus.server_key(case['server'])}")
    if outcome.verdict is not None:
        print(outcome.verdict.report(limit, width=2000 if verbose else 200))
    else:
        seen_errors[outcome.error] += 1
        last_line = outcome.error.strip().splitlines()[-1]
        # The same traceback for 300 cases helps nobody.
        full = verbose or seen_errors[outcome.error] == 1
        print("    " + (outcome.error.strip() if full else last_line).replace("\n", "\n    "))
    if verbose:
        for key in ("method", "headers", "request", "request_raw"):
            if key in case:
                print(f"    {key} {json.dumps(case[key], ensure_ascii=False)[:4000]}")
        if "stream" in case:
            print(f"    common {json.dumps(case['stream']['common'], ensure_ascii=False)[:4000]}")


def _print_table(done: list[Outcome]) -> None:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in done:
        row = rows[outcome.case["group"]]
        row["run"] += 1
        row["passed" if outcome.passed else "failed"] += 1
        row["microseconds"] += int(outcome.seconds * 1e6)
        verdict = outcome.verdict
        if verdict is not None and verdict.accepted:
            row["deviates"] += verdict.deviation is not None
            row["shape"] += verdict.deviation is None and not verdict.exact
    total: Counter[str] = Counter()
    for row in rows.values():
        total.update(row)
    print(f"\n{'group':<15}{'passed':>8}{'failed':>8}{'deviates':>10}{'shape only':>12}{'seconds':>9}")
    for name, row in [*sorted(rows.items()), ("total", total)]:
        figures = f"{row['passed']:>8}{row['failed'] or '-':>8}{row['deviates'] or '-':>10}{row['shape'] or '-':>12}"
        print(f"{name:<15}{figures}{row['microseconds'] / 1e6:>9.2f}")


def _failed_before() -> set[str]:
    return set(json.loads(FAILED.read_text())) if FAILED.exists() else set()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.run", description=__doc__.split("\n")[0])
    parser.add_argument("--group", "-g", action="append", default=[], help="only this group (may be repeated)")
    parser.add_argument("--id", "-k", action="append", default=[], help="only ids that match this glob")
    parser.add_argument(
        "--server-filter", "-s", action="append", default=[],
        help="only configurations with this value (hermes) or this text in their JSON; repeated: all must hold",
    )  # fmt: skip
    parser.add_argument("--core", action="store_true", help="only the cases marked core (457 of 1,567)")
    parser.add_argument("--failed", action="store_true", help="only what failed in the last run")
    parser.add_argument("--mode", choices=[*corpus.MODES, "both"], default="checkpoint", help="default: checkpoint")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of model folders; default: build/models")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="failing cases to show (default 5; 0: none)")
    parser.add_argument("--diffs", type=int, default=3, metavar="N", help="differences to show per case (default 3)")
    parser.add_argument("-x", "--exit-first", action="store_true", help="stop at the first failing case")
    parser.add_argument("-v", "--verbose", action="store_true", help="all differences, requests and tracebacks")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="list the N slowest cases")
    parser.add_argument("--list", action="store_true", help="list the chosen cases and stop")
    options = parser.parse_args(arguments)

    cases = corpus.select(
        corpus.load(), groups=options.group, ids=options.id, server_filters=options.server_filter, core=options.core
    )
    if options.failed:
        before = _failed_before()
        cases = [case for case in cases if case["id"] in before]
    if options.list:
        for case in cases:
            print(f"{case['group']:<15}{case['id']:<45} {corpus.server_key(case['server'])}")
        return 0
    if not cases:
        print("no case matches")
        return 2
    if options.models == MODELS:
        from infra.models import build

        for name in sorted({case["server"]["model"] for case in cases}):
            build(name, MODELS)

    if not options.verbose:
        # The service logs what it fails on; the table would drown in it.
        logging.disable(logging.CRITICAL)
    modes = corpus.MODES if options.mode == "both" else (options.mode,)
    done: list[Outcome] = []
    seen_errors: Counter[str] = Counter()
    failures = 0
    begun = time.perf_counter()
    for outcome in outcomes(cases, options.models, modes):
        done.append(outcome)
        if outcome.passed:
            continue
        failures += 1
        if failures <= options.show or options.verbose:
            _print_failure(outcome, None if options.verbose else options.diffs, options.verbose, seen_errors)
        if options.exit_first:
            break
    _print_table(done)
    for outcome in sorted(done, key=lambda one: -one.seconds)[: options.slowest]:
        print(f"{outcome.seconds:8.3f} s  {outcome.case['id']}  [{outcome.mode}]")
    print(f"{time.perf_counter() - begun:.1f} s in all; {failures} failed (run them again with --failed)")
    ran = {outcome.case["id"] for outcome in done}
    still_failed = (_failed_before() - ran) | {outcome.case["id"] for outcome in done if not outcome.passed}
    FAILED.parent.mkdir(exist_ok=True)
    FAILED.write_text(json.dumps(sorted(still_failed)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
