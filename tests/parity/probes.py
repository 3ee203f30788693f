"""Running the probe of ``tests/slice/parity``: with full vLLM, and with the slice of a version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from infra.slice.versions import NEWEST
from tests.parity.reference import ROOT, Reference

PROBE = ROOT / "tests" / "slice" / "parity" / "probe.py"
_SECONDS = 3600


def probe(python: str, environ: dict[str, str], models: Path, out: Path, sample: bool) -> None:
    """Run the probe with one Python and write ``out`` (.jsonl.gz).

    Raises:
        subprocess.CalledProcessError, subprocess.TimeoutExpired: the probe itself failed.
    """
    command = [python, str(PROBE), "--models", str(models), "--out", str(out)]
    subprocess.run(command + ["--sample"] * sample, check=True, timeout=_SECONDS, env=environ, cwd=ROOT)


def probe_both(
    reference: Reference,
    version: str,
    models: Path,
    out: Path,
    sample: bool,
    earlier: tuple[Path | None, Path | None] = (None, None),
) -> tuple[Path, Path]:
    """The results of full vLLM and of the slice; a side that has results in ``earlier`` is not run."""
    full, ours = (given or out / f"{side}.jsonl.gz" for given, side in zip(earlier, ("full", "slice"), strict=True))
    if earlier[0] is None:
        probe(reference.python, reference.environ(), models, full, sample)
    if earlier[1] is None:
        probe(sys.executable, slice_environ(version), models, ours, sample)
    return full, ours


def slice_environ(version: str) -> dict[str, str]:
    """The environment variables of a process that runs with the slice of one version."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if version == NEWEST:
        return own
    folder = ROOT / "build" / "slices" / version
    if not folder.is_dir():
        raise FileNotFoundError(f"no slice at {folder}: `make slices` builds it")
    return {**own, "PYTHONPATH": str(folder)}
