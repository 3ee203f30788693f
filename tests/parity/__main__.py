"""``python -m tests.parity``: everything that is compared with full vLLM, in tables; 0 when all agree."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from handlers.progress import progress
from infra.models import MODELS, build
from infra.slice.errors import SliceError
from infra.slice.versions import NEWEST, VERSIONS
from tests.golden import corpus
from tests.golden.corpus import Case
from tests.parity import images, images_page, page, parsers, probes, servers
from tests.parity.configurations import CONFIGURATIONS, Server, title
from tests.parity.reference import PYTHON, PYTHONPATH, ROOT, Reference, find_reference, reads_images
from tests.render import recorded as renders
from tests.slice.parity.compare import read

_SHOWN = 20
PARTS = ("parsers", "servers", "images")


def main(arguments: list[str] | None = None) -> int:
    """The exit status is 0 when all agree, 1 when anything differs, 2 when it cannot be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity",
        description=__doc__,
        epilog=f"{PYTHON} names another Python with vLLM's dependencies, {PYTHONPATH} the folder of its vLLM.",
    )
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-vllm" / "bin" / "python")
    parser.add_argument("--version", choices=VERSIONS, default=NEWEST, help="vLLM's version, on both sides")
    parser.add_argument("--record", action="store_true", help="keep full vLLM's results for the tests")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--sample", action="store_true", help="about a tenth of the parser cases")
    parser.add_argument("--full-results", type=Path, help="full vLLM's probe results of an earlier run")
    parser.add_argument("--slice-results", type=Path, help="the slice's")
    parser.add_argument(
        "--all-cases", action="store_true", help="servers: all recorded cases and render configurations"
    )
    parser.add_argument("--model", help="servers, images: only configurations of this model folder")
    parser.add_argument("--random-sizes", type=int, default=200, help="images: pictures of random sizes for each model")
    parser.add_argument("--seed", type=int, default=1, help="images: of the random sizes")
    parser.add_argument("--write", action="store_true", help="write the page in docs/results; needs a whole run")
    options = parser.parse_args(arguments)
    older = options.version != NEWEST
    whole = older or (options.all_cases and not options.only) or options.only == "images"
    if options.write and (options.sample or options.model or not whole):
        parser.error("--write needs --all-cases and no part of it alone, or --only images, and no single model")
    if options.model and options.only == "images" and options.model not in images.NAMES:
        parser.error(f"--model is one of {', '.join(images.NAMES)} with --only images")
    if options.record and not (options.only == "images" or (options.sample and options.only == "parsers")):
        parser.error("--record goes with --only images, or with --sample and --only parsers")
    if options.version != NEWEST and options.only != "parsers":
        parser.error(f"answers are recorded from vLLM {NEWEST}: other versions are compared with --only parsers")
    out = ROOT / "build" / "parity" / options.version
    out.mkdir(parents=True, exist_ok=True)
    models = ROOT / "build" / "models"
    recorded = [*corpus.load(), *renders.load()]
    known = [*CONFIGURATIONS, *(servers.further(renders.load()) if options.all_cases else ())]
    chosen = [one for one in known if options.model in (None, one["model"])]
    try:
        reference = find_reference(os.environ, options.python, options.version)
        for name in MODELS:
            build(name, models)
        agree = True
        tallies: list[servers.Tally] = []
        if options.only in (None, "parsers"):
            full, ours = probes.probe_both(
                reference, options.version, models, out, options.sample, (options.full_results, options.slice_results)
            )
            comparison = parsers.compare(read(full), read(ours))
            print(*comparison.told(_SHOWN), sep="\n")
            agree &= comparison.agrees
            if options.record:
                shutil.copy(full, ROOT / "tests" / "slice" / "data" / f"full-vllm-{options.version}.jsonl.gz")
        if options.only in (None, "servers"):
            tallies = compare_servers(reference, models, out, chosen, recorded, core=not options.all_cases)
            agree &= bool(tallies) and not any(any(tally.reports.values()) for tally in tallies)
        if options.only == "images" or (options.only is None and with_images(reference)):
            names = [name for name in images.NAMES if options.model in (None, name)]
            pictured = images.compare(reference, out, models, names, options.random_sizes, options.seed, options.record)
            agree &= show_pictures(pictured)
            if options.write:
                images_page.write(pictured, reference, options.seed)
        if options.write and options.only != "images":
            page.write(options.version, comparison, tallies)
    except (OSError, RuntimeError, ValueError, SliceError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\nall agree" if agree else "\nthere are differences")
    return 0 if agree else 1


def with_images(reference: Reference) -> bool:
    """Whether full vLLM can read pictures here; says so where it cannot."""
    found = reads_images(reference)
    if not found:
        print(f"\npictures are not compared: {reference.python} has no torchvision (docs/parity.md, Environment)")
    return found


def show_pictures(rows: list[images.Row]) -> bool:
    """Print the first differences; whether there are none, and something was compared at all."""
    for row in rows:
        for report in row.different[:_SHOWN]:
            print(f"{row.model}: {report}")
    return bool(rows) and not any(row.different for row in rows) and all(row.values for row in rows)


def compare_servers(
    reference: Reference, models: Path, out: Path, chosen: list[Server], recorded: list[Case], core: bool
) -> list[servers.Tally]:
    """Print the table by configuration and the differences; the tallies."""
    tallies = []
    with progress("configurations", len(chosen)) as tell:
        for server in chosen:
            cases = servers.cases_of(server, recorded, core)
            tallies.append(servers.compared(server, reference, models, cases, out))
            tell(title(server), 1)
    print("", *servers.table(tallies), sep="\n")
    for tally in tallies:
        for which, reports in tally.reports.items():
            for report in reports[:_SHOWN]:
                print(f"{which}, {tally.configuration}: {report}")
    return tallies


if __name__ == "__main__":
    sys.exit(main())
