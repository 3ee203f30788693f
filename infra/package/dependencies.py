"""The distributions of a package: the runtime lock, installed for another machine, and of each only what runs.

uv resolves nothing here: the lock is complete, and every file is checked
against its hash.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from infra.package.binaries import is_binary
from infra.package.errors import PackageError
from infra.package.functions import Function
from infra.package.target import PYTHON, Target

# Of these, only what the slice's structured-output check loads; the rest is headers, sources and torch bindings.
_ONLY = {
    "xgrammar": ("xgrammar/libxgrammar_bindings.so",),
    # The core is linked with the testing library, too.
    "apache-tvm-ffi": ("tvm_ffi/*.py", "tvm_ffi/core.*.so", "tvm_ffi/lib/libtvm_ffi*.so"),
    # Of the descriptions of hundreds of services, those of S3 and of what gives credentials for it.
    "botocore": (
        "botocore/*.py", "botocore/cacert.pem", "botocore/data/*.json",
        "botocore/data/s3/*", "botocore/data/sts/*", "botocore/data/sso/*", "botocore/data/sso-oidc/*",
    ),
    "boto3": ("boto3/*.py",),
}  # fmt: skip
_TEST_NAMES = re.compile(r"(^|/)(tests?|testing|test_[^/]*\.py|[^/]*_test\.py|testclient\.py|conftest\.py)(/|$)")
_METADATA = ("METADATA", "entry_points.txt")
_LICENCE = ("LICENSE", "LICENCE", "NOTICE", "COPYING")


def install(lock: Path, target: Target, folder: Path) -> None:
    """Install a whole lock for the target.

    Raises:
        PackageError: uv is absent, or a distribution cannot be had for the target.
    """
    command = [uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--python-version", PYTHON, "--python-platform", target.platform]
    command += ["--link-mode", "copy", "--target", str(folder), "--requirements", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PackageError(f"cannot install {lock.name} for {target.name}:\n{done.stderr.strip()}")


def uv() -> str:
    """The program uv.

    Raises:
        PackageError: uv is not installed.
    """
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if not found:
        raise PackageError("uv is needed to build the Lambda artefacts: `make setup` installs it into .venv")
    return found


def runtime_files(folder: Path, function: Function) -> Iterator[tuple[str, bytes]]:
    """Name and content of what a function needs of an installed lock."""
    for info in sorted(folder.glob("*.dist-info")):
        name = _distribution(info)
        if name in function.without:
            continue
        for path in _recorded(info):
            relative = path.relative_to(folder).as_posix()
            if not path.is_file():
                continue
            data = path.read_bytes()
            if path.name.upper().startswith(_LICENCE) and path.suffix != ".py":
                wanted = True  # wherever it is: some bring those of what they contain
            elif info in path.parents:
                wanted = path.name in _METADATA
            elif name in _ONLY:
                wanted = any(fnmatch(relative, pattern) for pattern in _ONLY[name]) and not _TEST_NAMES.search(relative)
            else:
                wanted = (path.suffix == ".py" or is_binary(data)) and not _TEST_NAMES.search(relative)
            if wanted:
                yield relative, data


def wheel_files(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files of the slice's wheel, which holds nothing that does not run."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if ".dist-info/" not in name or name.endswith(_METADATA) or "/licenses/" in name:
                yield name, archive.read(name)


def slice_files(wheel: Path, folder: str, target: Target) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files of a further slice, in ``folder``, without another machine's code.

    Its licences are those of the first slice.
    """
    machine = target.triple.partition("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            wanted = not name.endswith(".so") or name.endswith(f"/{machine}.abi3.so")
            if ".dist-info/" not in name and wanted:
                yield f"{folder}/{name}", archive.read(name)


def _distribution(info: Path) -> str:
    for line in (info / "METADATA").read_text(encoding="utf-8").splitlines():
        if line.startswith("Name:"):
            return re.sub(r"[-_.]+", "-", line.split(":", 1)[1].strip()).lower()
    raise PackageError(f"{info.name} has no name")


def _recorded(info: Path) -> Iterator[Path]:
    for line in sorted((info / "RECORD").read_text(encoding="utf-8").splitlines()):
        name = line.split(",", 1)[0].strip('"')
        if not name.startswith(("/", "..")):
            yield info.parent / name
