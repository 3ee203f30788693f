"""``python -m tests.parity``: everything that is compared with full vLLM, in tables; 0 when all agree."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from infra.models import MODELS, build
from infra.slice.errors import SliceError
from tests.golden import corpus
from tests.golden.corpus import Case
from tests.parity import page, parsers, servers
from tests.parity.configurations import CONFIGURATIONS, Server
from tests.parity.reference import PYTHON, PYTHONPATH, ROOT, Reference, find_reference
from tests.render import recorded as renders
from tests.slice.parity.compare import first_difference, read

_SHOWN = 20


def main(arguments: list[str] | None = None) -> int:
    """The exit status is 0 when all agree, 1 when anything differs, 2 when it cannot be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity",
        description=__doc__,
        epilog=f"{PYTHON} names another Python with vLLM's dependencies, {PYTHONPATH} the folder of its vLLM.",
    )
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-vllm" / "bin" / "python")
    parser.add_argument("--only", choices=("parsers", "servers"), help="one half")
    parser.add_argument("--sample", action="store_true", help="about a tenth of the parser cases")
    parser.add_argument("--full-results", type=Path, help="full vLLM's probe results of an earlier run")
    parser.add_argument(
        "--all-cases", action="store_true", help="servers: all recorded cases and render configurations"
    )
    parser.add_argument("--model", help="servers: only configurations of this model folder")
    parser.add_argument("--write", action="store_true", help="write docs/results/parity.md; needs a whole run")
    options = parser.parse_args(arguments)
    if options.write and (options.only or options.sample or options.model or not options.all_cases):
        parser.error("--write needs --all-cases, and no part of it alone")
    out = ROOT / "build" / "parity"
    out.mkdir(parents=True, exist_ok=True)
    models = ROOT / "build" / "models"
    recorded = [*corpus.load(), *renders.load()]
    known = [*CONFIGURATIONS, *(servers.further(renders.load()) if options.all_cases else ())]
    chosen = [one for one in known if options.model in (None, one["model"])]
    try:
        reference = find_reference(os.environ, options.python)
        for name in MODELS:
            build(name, models)
        agree = True
        if options.only != "servers":
            rows, cases = compare_parsers(reference, models, out, options.sample, options.full_results)
            agree &= cases > 0 and not any(row.different for row in rows)
        if options.only != "parsers":
            tallies = compare_servers(reference, models, out, chosen, recorded, core=not options.all_cases)
            agree &= bool(tallies) and not any(tally.reports for tally in tallies)
        if options.write:
            page.write(rows, tallies, cases)
    except (OSError, RuntimeError, ValueError, SliceError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\nall agree" if agree else "\nthere are differences")
    return 0 if agree else 1


def compare_parsers(
    reference: Reference, models: Path, out: Path, sample: bool, full: Path | None
) -> tuple[list[parsers.Row], int]:
    """Print the table by parser and the first differences; the rows, and the number of full vLLM's results."""
    theirs, ours = (read(path) for path in parsers.probe_both(reference, models, out, sample, full))
    rows = parsers.rows(theirs, ours)
    print(*parsers.table(rows), sep="\n")
    different = [name for row in rows for name in row.different]
    print(f"\nparsers: {len(theirs.keys() | ours.keys()):,} cases in {len(rows)} rows, {len(different)} different")
    for name in different[:_SHOWN]:
        print(f"{name}\n    full, slice: {first_difference(theirs.get(name), ours.get(name))}")
    return rows, len(theirs)


def compare_servers(
    reference: Reference, models: Path, out: Path, chosen: list[Server], recorded: list[Case], core: bool
) -> list[servers.Tally]:
    """Print the table by configuration and the differences; the tallies."""
    tallies = []
    for server in chosen:
        cases = servers.cases_of(server, recorded, core)
        tallies.append(servers.tally_vllm(server, reference, models, cases, out / "vllm.log"))
        tallies.append(servers.tally_ours(server, models, cases, out / "derender.log"))
    print("", *servers.table(tallies), sep="\n")
    for tally in tallies:
        for report in tally.reports[:_SHOWN]:
            print(f"{tally.side}, {tally.configuration}: {report}")
    return tallies


if __name__ == "__main__":
    sys.exit(main())
