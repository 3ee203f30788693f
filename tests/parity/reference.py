"""Where full vLLM is: a Python with its dependencies, and the published wheel, unpacked.

Before anything is compared, that Python says which vLLM it imports: a slice, or another version, is no reference.
It must never install anything: ``make parity`` makes the environment.
"""

from __future__ import annotations

import json
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
_WHICH = """
import json, pathlib, vllm
from vllm.version import __version__
print(json.dumps([__version__, (pathlib.Path(vllm.__file__).parent / "_slice").is_dir()]))
"""
_SECONDS = 120


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
    """The reference that the variables name, or the default environment, with the published code of a version.

    ``DERENDER_VLLM_PYTHONPATH`` names other code; empty, it is what that Python has installed.

    Raises:
        FileNotFoundError: there is no such Python.
        ValueError: it imports something else than full vLLM of that version.
        SliceError: the published code cannot be had.
    """
    python = _existing(environ.get(PYTHON) or str(default_python))
    code = environ.get(PYTHONPATH) if environ.get(PYTHON) else None
    if code is None:
        code = str(unpacked(published(version, cache), ROOT / "build" / "parity"))
    found = Reference(python, code)
    require_full(found, version)
    return found


def require_full(reference: Reference, version: str) -> None:
    """Have the reference say which vLLM it imports.

    Raises:
        ValueError: it is a slice, or another version.
        subprocess.SubprocessError: it does not say.
    """
    command = [reference.python, "-c", _WHICH]
    done = subprocess.run(command, check=True, timeout=_SECONDS, env=reference.environ(), stdout=subprocess.PIPE)
    found, is_slice = json.loads(done.stdout.splitlines()[-1])
    where = f"{reference.python} with {reference.pythonpath or 'its own packages'}"
    if is_slice:
        raise ValueError(f"{where} imports a slice of vLLM, which is no reference")
    if found.partition("+")[0] != version:
        raise ValueError(f"{where} imports vLLM {found}, wanted is {version}")


def reads_images(reference: Reference) -> bool:
    """Whether its Python has torchvision, without which full vLLM takes no pictures."""
    command = [reference.python, "-c", "import torchvision"]
    return subprocess.run(command, capture_output=True, env=reference.environ(), check=False).returncode == 0


def unpacked(wheel: WheelArchive, folder: Path) -> Path:
    """The wheel's files in ``folder``, without its kernels for GPUs; an earlier unpacking that has all is used again.

    Parsers may be machine code: what is not known to be a kernel or a program stays.
    """
    out = folder / f"{wheel.name}-{wheel.version}"
    wanted = [path for path in wheel.paths() if not _is_kernel(path) and not path.endswith(".dist-info/RECORD")]
    if all((out / path).is_file() for path in wanted):
        return out
    begun = out.with_name(f"{out.name}.part")
    for earlier in (begun, out):
        shutil.rmtree(earlier, ignore_errors=True)
    for path in wanted:
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
