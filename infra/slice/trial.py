"""The built slice, tried in a process of its own: no fault of it waits for a request.

Every module is imported, every name that waits is loaded, every pydantic model must be complete, and what core uses
must be there in the form in which core uses it (`contract`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from infra.slice.errors import SliceError

_SCRIPT = Path(__file__).with_name("trial_process.py")


def unpack(wheel: Path, folder: Path) -> Path:
    """The wheel's files in `folder`, as an entry of sys.path; what was there is replaced."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    begun = folder.with_name(folder.name + ".part")
    _remove(begun)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(begun)
    _remove(folder)
    begun.rename(folder)
    return folder


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def faults(folder: Path, wanting: Mapping[str, str]) -> list[str]:
    """What is wrong with the slice in `folder`, a line each.

    Parameters
    ----------
    folder
        The unpacked slice.
    wanting
        Modules that cannot be imported, with the package that each says it needs.

    Raises SliceError when the process itself fails.
    """
    path = os.pathsep.join([str(folder), str(_SCRIPT.parents[2])])
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), json.dumps(dict(wanting))],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    if done.returncode:
        raise SliceError(f"the slice could not be tried: {done.stderr.strip()[-2000:]}")
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found
