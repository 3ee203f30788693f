"""Precompiled modules: Lambda's file system is read-only, so without them every cold start compiles every source."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from infra.package.errors import PackageError
from infra.package.target import ABI

# Where Lambda unpacks a function; tracebacks show it.
TASK_ROOT = PurePosixPath("/var/task")
_SCRIPT = Path(__file__).with_name("compile_sources.py")


def compile_all(sources: Mapping[str, bytes], python: Path) -> dict[str, bytes]:
    """Bytecode files by their names in the package, for every source of it.

    The same sources and the same interpreter give the same bytes: the order is
    fixed, and so is the seed that orders sets among the constants.

    Raises:
        PackageError: a source does not compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        jobs, outputs = [], {}
        for number, (name, data) in enumerate(sorted(sources.items())):
            source, output = Path(folder, f"{number}.py"), Path(folder, f"{number}.pyc")
            source.write_bytes(data)
            jobs.append([str(source), str(output), str(TASK_ROOT / name)])
            outputs[bytecode_name(name)] = output
        done = subprocess.run(
            [str(python), "-P", "-S", str(_SCRIPT)],
            input=json.dumps(jobs),
            env={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PackageError(f"a module does not compile for the target: {done.stderr.strip()[-2000:]}")
        return {name: output.read_bytes() for name, output in outputs.items()}


def bytecode_name(source: str) -> str:
    """``a/b.py`` -> ``a/__pycache__/b.cpython-313.pyc``."""
    path = PurePosixPath(source)
    return str(path.parent / "__pycache__" / f"{path.stem}.{ABI}.pyc")
