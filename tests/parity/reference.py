"""Where full vLLM is: a Python with its dependencies, and the published wheel, unpacked.

It must never install anything: ``make parity`` makes the environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from infra.slice.fetch import DEFAULT_CACHE, published
from infra.slice.sources import WheelArchive
from infra.slice.versions import NEWEST

ROOT = Path(__file__).resolve().parents[2]
_KERNELS = (
    "*_C.*.so",
    "*_C_*.so",
    "*/cumem_allocator.*.so",
    "*/spinloop.*.so",
    "vllm/third_party/*.so",
    "vllm/vllm-rs",
)
"""What runs on a GPU, and the front end that is a program of its own."""

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


def find_reference(
    environ: Mapping[str, str], default_python: Path, version: str = NEWEST, cache: Path = DEFAULT_CACHE
) -> Reference:
    """The reference that the variables name, or the default environment.

    Where its Python has no vLLM and no path to one is named, it gets the published code of the version.

    Raises:
        FileNotFoundError: there is no such Python.
        SliceError: the published code cannot be had.
    """
    python = _existing(environ.get(PYTHON) or str(default_python))
    if environ.get(PYTHON) and (PYTHONPATH in environ or has_vllm(python)):
        return Reference(python, environ.get(PYTHONPATH, ""))
    return Reference(python, str(unpacked(published(version, cache), ROOT / "build" / "parity")))


def reads_images(reference: Reference) -> bool:
    """Whether its Python has torchvision, without which full vLLM takes no pictures."""
    command = [reference.python, "-c", "import torchvision"]
    return subprocess.run(command, capture_output=True, env=reference.environ(), check=False).returncode == 0


def has_vllm(python: str) -> bool:
    """Whether a Python has a package of that name itself."""
    command = [python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"]
    return subprocess.run(command, capture_output=True, cwd="/", check=False).returncode == 0


def unpacked(wheel: WheelArchive, folder: Path) -> Path:
    """The wheel's files in ``folder``, without its kernels for GPUs; an earlier unpacking is used again.

    Parsers may be machine code: what is not known to be a kernel or a program stays.
    """
    out = folder / f"{wheel.name}-{wheel.version}"
    if not out.is_dir():
        begun = out.with_name(f"{out.name}.part")
        shutil.rmtree(begun, ignore_errors=True)
        for path in wheel.paths():
            if not _is_kernel(path) and not path.endswith(".dist-info/RECORD"):
                data = wheel.read(path)
                assert data is not None
                target = begun / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        begun.rename(out)
    return out


def _is_kernel(path: str) -> bool:
    return any(fnmatch(path, pattern) for pattern in _KERNELS)


def _existing(python: str) -> str:
    if shutil.which(python) is None:
        raise FileNotFoundError(f"no Python at {python}: `make parity` makes one, or {PYTHON} names one")
    return python
