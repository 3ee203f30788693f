"""`python -m infra.slice build`: the slice's wheel from the published vLLM wheel."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from infra.slice.build import build
from infra.slice.errors import SliceError
from infra.slice.fetch import DEFAULT_CACHE, fetch

_REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements" / "vllm.txt"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 1 after an error that is told on standard error."""
    parser = argparse.ArgumentParser(prog="python -m infra.slice", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="build the slice's wheel")
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--wheel", type=Path, help="the published vLLM wheel")
    source.add_argument("--fetch", action="store_true", help="download it, checked against requirements/vllm.txt")
    command.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where --fetch keeps it")
    command.add_argument("--out", type=Path, required=True, help="the folder for the new wheel")
    command.add_argument(
        "--vendor-wheel",
        type=Path,
        action="append",
        default=[],
        help="a wheel of openai or xgrammar, in place of the installed one",
    )
    options = parser.parse_args(arguments)
    try:
        wheel = fetch(_REQUIREMENTS, options.cache) if options.fetch else options.wheel
        report = build(wheel, options.out, options.vendor_wheel)
    except SliceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for kind, count in report.kinds.items():
        print(f"{count:5} {kind}")
    print(f"{report.denied:5} denied")
    print(f"{report.wheel} ({report.size / 1e6:.2f} MB)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
