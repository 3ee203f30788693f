"""What Lambda's managed runtime brings along: an interpreter, the runtime client, boto3, and the emulator itself.

The client and boto3 are installed for the target's Python from the
development lock, the emulator is the one that the SAM CLI's package holds.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from infra.package.build import ROOT
from infra.package.dependencies import uv
from infra.package.errors import PackageError
from infra.package.interpreter import find_interpreter, interpreter_version
from infra.package.target import Target, host_target

# Of the managed runtime's own packages, those that a function may meet.
_DISTRIBUTIONS = (
    "awslambdaric",
    "simplejson",
    "snapshot-restore-py",
    "boto3",
    "botocore",
    "s3transfer",
    "jmespath",
    "urllib3",
    "python-dateutil",
    "six",
)
_EMULATOR = "lib/python*/site-packages/samcli/local/rapid/aws-lambda-rie-{arch}"


@dataclass(frozen=True)
class Runtime:
    """The parts by their paths: interpreter, emulator, folder of the runtime's packages, folder with a ``python3``."""

    target: Target
    python: Path
    emulator: Path
    packages: Path
    programs: Path


def prepare_runtime(root: Path = ROOT) -> Runtime:
    """The runtime for this machine, installed by the first call.

    Raises:
        PackageError: a part is missing; says which and how to get it.
    """
    target = host_target()
    if target is None:
        raise PackageError("Lambda has no such architecture as this machine's: the emulator cannot run here")
    python = find_interpreter()
    packages = _packages(root, python)
    return Runtime(target, python, _find_emulator(root, target), packages, _programs(root, python))


def _programs(root: Path, python: Path) -> Path:
    """The folder where a function's script finds ``python3``: the target's, without this machine's own packages."""
    folder = root / "build" / "emulator" / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".python3.{os.getpid()}"
    partial.write_text(f'#!/bin/sh\nexec "{python}" -S "$@"\n', encoding="utf-8")
    partial.chmod(0o755)
    partial.replace(folder / "python3")
    return folder


def _find_emulator(root: Path, target: Target) -> Path:
    found = sorted((root / ".venv-sam").glob(_EMULATOR.format(arch=target.name)))
    if not found:
        raise PackageError("the Lambda Runtime Interface Emulator comes with the SAM CLI: run `make sam` first")
    if not os.access(found[0], os.X_OK):
        found[0].chmod(0o755)  # not every installer keeps the bit
    return found[0]


def _packages(root: Path, python: Path) -> Path:
    wanted = _locked(root / "requirements" / "dev.txt")
    digest = hashlib.sha256(f"{interpreter_version(python)}\n{wanted}".encode()).hexdigest()[:16]
    base = root / "build" / "emulator"
    base.mkdir(parents=True, exist_ok=True)
    folder = base / f"runtime-{digest}"
    with open(base / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            for old in base.glob("runtime-*"):
                shutil.rmtree(old)
            with tempfile.TemporaryDirectory(dir=base) as partial:
                _install(python, wanted, Path(partial))
                (Path(partial) / "packages").rename(folder)
    return folder


def _install(python: Path, requirements: str, folder: Path) -> None:
    lock = folder / "requirements.txt"
    lock.write_text(requirements, encoding="utf-8")
    command = [uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", str(python)]
    command += ["--compile-bytecode", "--link-mode", "copy", "--target", str(folder / "packages")]
    done = subprocess.run([*command, "--requirements", str(lock)], capture_output=True, text=True)
    if done.returncode:
        raise PackageError(f"cannot install Lambda's runtime client: {done.stderr.strip()}")


def _locked(lock: Path) -> str:
    """The entries of those distributions, with their hashes, out of a lock."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8"))
    return "".join(sorted(entry for entry in entries if entry.split("==", 1)[0] in _DISTRIBUTIONS))
