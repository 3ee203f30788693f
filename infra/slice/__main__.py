"""`python -m infra.slice`: slices of published vLLM wheels, and what a new version needs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from handlers.progress import progress
from infra.slice.build import build, collect, upstream
from infra.slice.check import check, compared, lines, tables_for
from infra.slice.errors import OriginalChanged, SliceError, SourceError
from infra.slice.fetch import DEFAULT_CACHE, write_pin
from infra.slice.hand import HandModules
from infra.slice.sources import Sources
from infra.slice.spec import Specification
from infra.slice.trial import faults, unpack
from infra.slice.versions import NEWEST, VERSIONS, specification


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 1 after an error that is told on standard error."""
    parser = argparse.ArgumentParser(prog="python -m infra.slice", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    built = commands.add_parser("build", help="build a slice's wheel, and try it")
    pinned = commands.add_parser("pin", help="write requirements/vllm-<version>.txt from what the index says")
    checked = commands.add_parser("check", help="all that keeps a version from being sliced, and a draft of its tables")
    accepted = commands.add_parser("accept", help="write into hand modules that they were looked at beside upstream's")
    compares = commands.add_parser("diff", help="what changed in upstream's modules since the version beside this one")
    for command in (built, pinned, checked, accepted, compares):
        command.add_argument("--version", default=NEWEST, help=f"vLLM's version (default: {NEWEST})")
        command.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where what is fetched is kept")
    built.add_argument("--older", action="store_true", help="all versions but the newest")
    built.add_argument("--wheel", type=Path, help="the published vLLM wheel; without it, it is fetched")
    built.add_argument("--out", type=Path, required=True, help="the folder for the new wheel")
    built.add_argument("--unpack", type=Path, help="a folder that gets the wheel's files, in one named as the version")
    built.add_argument(
        "--vendor-wheel",
        type=Path,
        action="append",
        default=[],
        help="a wheel of a vendored package, in place of the installed one",
    )
    accepted.add_argument("module", nargs="+", help="their names, as a check gives them, or `all`")
    compares.add_argument("module", nargs="+", help="their names")
    options = parser.parse_args(arguments)
    commanded = {"build": _build, "pin": _pin, "check": _check, "accept": _accept, "diff": _diff}
    try:
        return commanded[options.command](options)
    except SliceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _build(options: argparse.Namespace) -> int:
    versions = VERSIONS[1:] if options.older else (options.version,)
    with progress("slices", len(versions)) as tell:
        for version in versions:
            _build_one(specification(version), options)
            tell(version, 1)
    return 0


def _build_one(spec: Specification, options: argparse.Namespace) -> None:
    report = build(spec, upstream(spec, options.wheel, options.vendor_wheel, options.cache), options.out)
    with TemporaryDirectory() as scratch:
        folder = unpack(report.wheel, (options.unpack or Path(scratch)) / spec.version)
        wrong = faults(folder, spec.wanting)
    if wrong:
        report.wheel.unlink()
        raise SliceError("the slice is built, but does not run:\n" + "\n".join(wrong))
    for kind, count in report.kinds.items():
        print(f"{count:5} {kind}")
    print(f"{report.denied:5} denied")
    print(f"{report.wheel} ({report.size / 1e6:.2f} MB)")


def _pin(options: argparse.Namespace) -> int:
    print(write_pin(options.version, options.cache))
    return 0


def _check(options: argparse.Namespace) -> int:
    found = check(options.version, lambda spec: upstream(spec, cache_folder=options.cache))
    print(*lines(found), sep="\n")
    return 1 if found.findings else 0


def _diff(options: argparse.Namespace) -> int:
    given = upstream(tables_for(options.version), cache_folder=options.cache)
    for module in options.module:
        print(*compared(options.version, module, given), sep="\n")
    return 0


def _accept(options: argparse.Namespace) -> int:
    spec = tables_for(options.version)
    given = upstream(spec, cache_folder=options.cache)
    hand, sources = HandModules(spec.version), Sources(given.mounts())
    changed = {stop.module: stop for stop in collect(spec, given).stops if isinstance(stop, OriginalChanged)}
    for module in sorted(changed) if options.module == ["all"] else options.module:
        if module not in changed:
            raise SourceError(f"{module} is not a hand module whose original has changed")
        hand.accept(changed[module], sources.origin(module))
        print(hand.path(module))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
