"""``make package``: the Lambda artefacts under ``dist/``, with their sizes.

python -m infra.package [--function NAME] [--arch NAME] [--model DIR] [--fast-encoder] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from handlers.progress import progress
from infra.package.archive import write_tar
from infra.package.build import ROOT, Artefact, Workshop
from infra.package.functions import FUNCTIONS, SERVER
from infra.package.interpreter import find_interpreter, interpreter_version
from infra.package.local import write_local
from infra.package.target import TARGETS, host_target
from infra.package.template import other_template

_PACKAGED = (*FUNCTIONS, SERVER)
_NAMES = [function.name for function in _PACKAGED]
_ARCHES = [target.name for target in TARGETS]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 1 with one line on standard error."""
    parser = argparse.ArgumentParser(prog="python -m infra.package", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--function", choices=_NAMES, action="append", help="default: all, and the server of the image")
    parser.add_argument("--arch", choices=_ARCHES, action="append", help="default: all")
    parser.add_argument("--model", type=Path, help="a model folder to package with the functions")
    parser.add_argument("--fast-encoder", action="store_true", help="the fast encoder in functions that render: 10 MB")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default: dist")
    options = parser.parse_args(arguments)
    try:
        package(options.out, options.function or _NAMES, options.arch or _ARCHES, options.model, options.fast_encoder)
    except ConfigurationError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    return 0


def package(out: Path, names: list[str], arches: list[str], model: Path | None, fast: bool = False) -> None:
    """Build the artefacts and lay them into ``out``.

    Raises:
        PackageError: an artefact cannot be built.
    """
    workshop = Workshop(model=model, fast=fast)
    (out / "images").mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    print(f"{'artefact':<24}{'zip MB':>9}{'unzipped MB':>14}{'files':>8}")
    wanted = [(one, target) for one in _PACKAGED for target in TARGETS if one.name in names and target.name in arches]
    with progress("packaging", len(wanted)) as tell:
        for function, target in wanted:
            artefact = workshop.build(function, target)
            destination = out / f"{function.name}-{target.name}.zip"
            shutil.copyfile(artefact.archive, destination)
            write_tar(out / "images" / f"{function.name}-{target.name}.tar.gz", artefact.archive)
            rows.append(_row(artefact, destination))
            size = artefact.archive.stat().st_size
            print(f"{destination.name:<24}{size / 1e6:>9.1f}{artefact.unzipped / 1e6:>14.1f}{artefact.files:>8}")
            tell(destination.name, 1)
    for target in TARGETS:
        text = other_template((ROOT / "template.yaml").read_text(encoding="utf-8"), target)
        if text is not None:
            (out / f"template-{target.name}.yaml").write_text(text, encoding="utf-8")
    host = host_target()
    if host is not None and host.name in arches:
        write_local(out, host)
    record = {"python": interpreter_version(find_interpreter()), "artefacts": rows}
    (out / "package.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _row(artefact: Artefact, destination: Path) -> dict[str, Any]:
    return {
        "file": destination.name,
        "function": artefact.function.name,
        "architecture": artefact.target.name,
        "handler": artefact.function.handler,
        "unzipped_bytes": artefact.unzipped,
        "sha256": artefact.sha256,
        "model": artefact.has_model,
    }


if __name__ == "__main__":
    raise SystemExit(main())
