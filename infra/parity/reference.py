"""Where full vLLM is: a Python with its dependencies, and the published wheel, unpacked.

It must never install anything: ``make parity`` makes the environment.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.slice.fetch import DEFAULT_CACHE, fetch

ROOT = Path(__file__).resolve().parents[2]
PYTHON, PYTHONPATH = "DERENDER_VLLM_PYTHON", "DERENDER_VLLM_PYTHONPATH"


@dataclass(frozen=True)
class Reference:
    """``python`` runs full vLLM when ``pythonpath`` comes first on its path (empty: it has vLLM itself)."""

    python: str
    pythonpath: str

    def environ(self) -> dict[str, str]:
        """The environment variables of its processes."""
        own = {"VLLM_TARGET_DEVICE": "cpu", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        return {**os.environ, **own, "PYTHONPATH": self.pythonpath}


def find_reference(environ: Mapping[str, str], default_python: Path, cache: Path = DEFAULT_CACHE) -> Reference:
    """The reference that the variables name, or the default environment with the pinned wheel.

    Raises:
        FileNotFoundError: there is no such Python.
        SliceError: the pinned wheel cannot be had.
    """
    if environ.get(PYTHON):
        return Reference(_existing(environ[PYTHON]), environ.get(PYTHONPATH, ""))
    python = _existing(str(default_python))
    return Reference(python, str(unpacked(fetch(ROOT / "requirements" / "vllm.txt", cache), ROOT / "build" / "parity")))


def unpacked(wheel: Path, folder: Path) -> Path:
    """The wheel's files in ``folder``, without its compiled libraries; an earlier unpacking is used again."""
    out = folder / wheel.stem
    if not out.is_dir():
        begun = out.with_name(f"{out.name}.part")
        shutil.rmtree(begun, ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(begun, [name for name in archive.namelist() if not name.endswith((".so", "vllm-rs"))])
        begun.rename(out)
    return out


def _existing(python: str) -> str:
    if shutil.which(python) is None:
        raise FileNotFoundError(f"no Python at {python}: `make parity` makes one, or {PYTHON} names one")
    return python
