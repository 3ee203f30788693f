"""What is put into the wheel beside our own modules: the slice of vLLM, and xgrammar's library.

Of both, what is there already is used: a slice in ``build/slice``, packages of
the environment. The rest is fetched with pip, each file checked against the
locks of ``requirements``. xgrammar itself is not a dependency, because it
declares torch; its library checks the grammars of requests, and is all that is
used of it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection
from importlib import metadata
from pathlib import Path, PurePosixPath

from infra.slice.build import build, upstream
from infra.slice.errors import SliceError
from infra.slice.versions import NEWEST, specification

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "xgrammar/libxgrammar_bindings.so"
_SLICES = ROOT / "build" / "slice"


class PartMissing(Exception):
    """A part cannot be had here. Says why, in one line."""


def slice_wheel() -> Path | None:
    """The wheel of the newest slice that was built in this tree, or came with it."""
    path = _SLICES / f"vllm-{specification(NEWEST).slice_version}-py3-none-any.whl"
    return path if path.is_file() else None


def lay_slice(folder: Path) -> None:
    """Put the slice's files into ``folder``, building the slice where it is not there.

    Raises:
        PartMissing: it cannot be built.
    """
    wheel = slice_wheel() or _build_slice()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def lay_library(folder: Path) -> None:
    """Put xgrammar's library for this machine, and its licence, into ``folder``.

    Raises:
        PartMissing: there is none for this machine, or it cannot be fetched.
    """
    with tempfile.TemporaryDirectory() as scratch:
        found = _installed("xgrammar") or _unpacked(_fetched(["xgrammar"], Path(scratch))["xgrammar"], Path(scratch))
        wanted = [LIBRARY, *(name for name in found if PurePosixPath(name).name.upper().startswith("LICENSE"))]
        if LIBRARY not in found:
            raise PartMissing("xgrammar has no library for this machine")
        for name in wanted:
            target = folder / "xgrammar" / PurePosixPath(name).name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(found[name].read_bytes())


def _build_slice() -> Path:
    spec = specification(NEWEST)
    absent = [name for name, version in spec.vendored.items() if _version(name) != version]
    try:
        with tempfile.TemporaryDirectory() as scratch:
            wheels = _fetched(absent, Path(scratch)) if absent else {}
            return build(spec, upstream(spec, vendor_wheels=list(wheels.values())), _SLICES).wheel
    except SliceError as exc:
        raise PartMissing(" ".join(str(exc).split())) from exc


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _installed(distribution: str) -> dict[str, Path]:
    """The files of a distribution of this environment, by name; empty when it is another version than the slice's."""
    if _version(distribution) != specification(NEWEST).vendored[distribution]:
        return {}
    return {str(path): Path(str(path.locate())) for path in metadata.files(distribution) or ()}


def _unpacked(wheel: Path, folder: Path) -> dict[str, Path]:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
        return {name: folder / "unpacked" / name for name in archive.namelist() if not name.endswith("/")}


def _fetched(distributions: Collection[str], folder: Path) -> dict[str, Path]:
    """Wheels for this machine by distribution, as the development lock pins them."""
    lock = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    entries = {entry.partition("==")[0]: entry for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock)}
    wanted = folder / "wanted.txt"
    wanted.write_text("".join(entries[name.replace("_", "-")] for name in distributions), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--dest", str(folder), "--requirement", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise PartMissing(f"pip could not download {', '.join(distributions)}: {last}")
    return {name: next(folder.glob(f"{name}-*.whl")) for name in distributions}
