"""Finding a CPython of Lambda's version: it compiles the bytecode, and runs what was built under the emulator.

No fixed path is tried: what counts is what PATH or uv offers, and that it answers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from infra.package.errors import PackageError
from infra.package.target import PYTHON

VARIABLE = "DERENDER_BUILD_PYTHON"
_PROBE = "import platform, sys; print(sys.implementation.name, platform.python_version(), sys.executable)"


@cache
def find_interpreter() -> Path:
    """The executable of a CPython of the target's version.

    Raises:
        PackageError: this machine has no such CPython; says how to get one.
    """
    for candidate in _candidates():
        found = _probe(candidate)
        if found is not None:
            return found
    raise PackageError(
        f"Python {PYTHON} is needed to build and run the Lambda artefacts, and none was found on PATH or by uv: "
        f"install it (for example with `uv python install {PYTHON}`), or name it in {VARIABLE}"
    )


def interpreter_version(python: Path) -> str:
    """Its full version, "3.13.x"; the bytecode of two patch releases can differ."""
    return _run([str(python), "-I", "-S", "-c", _PROBE]).split()[1]


def _candidates() -> Iterator[str]:
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    if sys.version_info[:2] == tuple(map(int, PYTHON.split("."))):
        yield sys.executable
    for folder in os.get_exec_path():
        path = Path(folder) / f"python{PYTHON}"
        if path.is_file():
            yield str(path)
    uv = Path(sys.executable).with_name("uv")
    program = str(uv) if uv.is_file() else shutil.which("uv")
    if program:
        yield _run([program, "python", "find", "--no-project", PYTHON]).strip()


def _probe(candidate: str) -> Path | None:
    if not candidate:
        return None
    answer = _run([candidate, "-I", "-S", "-c", _PROBE]).split(maxsplit=2)
    if len(answer) == 3 and answer[0] == "cpython" and answer[1].startswith(PYTHON + "."):
        return Path(answer[2].strip())
    return None


def _run(command: list[str]) -> str:
    # Version switchers put a shim on PATH that refuses versions nobody selected; this selects, and others ignore it.
    environ = {**os.environ, "PYENV_VERSION": PYTHON}
    try:
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
