"""``python -m tests.docker.stand_in``: base images of the same layout as AWS's and Docker's, made of Debian's packages.

For machines that reach no registry of images: as root, with `debootstrap`, a
CPython 3.13 and the SAM CLI's environment (`make sam`), which ships Lambda's
emulator. It is the layout, not the image: the C library is Debian's, where
AWS's image has Amazon Linux's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.emulator import prepare_runtime
from infra.package.interpreter import find_interpreter
from infra.package.target import host_target

LAMBDA = "public.ecr.aws/lambda/python:3.13"
SERVER = "python:3.13-slim"
ADAPTER = "public.ecr.aws/awsguru/aws-lambda-adapter:1.0.0"
# Tells a stand-in from the real image.
LABEL = "derender.stand-in"
_LIBRARIES = "libssl3,libffi8,zlib1g,libbz2-1.0,liblzma5,libsqlite3-0,libreadline8,ca-certificates"
_BOOTSTRAP = """#!/bin/sh
export PYTHONPATH=/var/task:/opt/python:/var/runtime
exec /var/lang/bin/python3.13 -m awslambdaric "${_HANDLER:-$1}"
"""
_ENTRY = """#!/bin/sh
[ $# -gt 0 ] && export _HANDLER="$1"
[ -n "$AWS_LAMBDA_RUNTIME_API" ] && exec /var/runtime/bootstrap
exec /usr/local/bin/aws-lambda-rie /var/runtime/bootstrap
"""
_UNNEEDED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "var/cache/apt",
    "var/lib/apt/lists",
)


def main() -> int:
    """Make the images that are not there; the exit status is 1, with one sentence, where something is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.docker.stand_in", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--again", action="store_true", help="make them again where they are there")
    options = parser.parse_args()
    target = host_target()
    missing = [name for name in ("debootstrap", "docker", "strip", "tar") if not shutil.which(name)]
    if os.geteuid() or missing or target is None:
        needed = ", ".join(missing) if missing else "root's rights" if os.geteuid() else "an x86_64 or arm64 machine"
        print(f"error: the stand-in images need {needed}", file=sys.stderr)
        return 1
    wanted = {name: _has(name) for name in (LAMBDA, SERVER, ADAPTER)}
    if all(wanted.values()) and not options.again:
        print("all images are there")
        return 0
    with tempfile.TemporaryDirectory(prefix="derender-base-") as name:
        root = Path(name) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={_LIBRARIES}", "bookworm", str(root)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        _slim(root)
        _add_python(root)
        _import(
            root, SERVER, "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin", 'CMD ["python3"]'
        )
        _add_runtime(root)
        for tag in (LAMBDA, f"{LAMBDA}-{target.name}"):
            _import(
                root, tag,
                "ENV PATH=/var/lang/bin:/usr/local/bin:/usr/bin:/bin LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime",
                "WORKDIR /var/task",
                'ENTRYPOINT ["/lambda-entrypoint.sh"]',
            )  # fmt: skip
        adapter = Path(name) / "adapter"
        adapter.mkdir()
        # An extension that only keeps still: what the adapter does outside Lambda.
        (adapter / "lambda-adapter").write_text("#!/bin/sh\nexec sleep infinity\n")
        (adapter / "lambda-adapter").chmod(0o755)
        _import(adapter, ADAPTER)
    print("made", LAMBDA, SERVER, ADAPTER)
    return 0


def _has(image: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode == 0


def _slim(root: Path) -> None:
    """As Docker's own slim images: without documentation, translations and package lists."""
    for folder in _UNNEEDED:
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True)


def _add_python(root: Path) -> None:
    """This machine's CPython 3.13 under /usr/local, as Docker's image has it."""
    python = find_interpreter()
    prefix = subprocess.run(
        [python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
    )
    source, library = Path(prefix.stdout.strip()), Path("lib") / "python3.13"
    ignored = shutil.ignore_patterns(
        "test", "idlelib", "tkinter", "turtledemo", "ensurepip", "__pycache__", "*.a", "site-packages", "config-*"
    )
    shutil.copytree(source / library, root / "usr/local" / library, ignore=ignored, symlinks=True)
    (root / "usr/local" / library / "site-packages").mkdir()
    shutil.copy2((source / "bin" / "python3.13").resolve(), root / "usr/local/bin/python3.13")
    for shared in (source / "lib").glob("libpython3*.so*"):
        shutil.copy2(shared, root / "usr/local/lib", follow_symlinks=False)
    # As in Docker's image: without symbols for debuggers.
    binaries = [*(root / "usr/local/lib").glob("libpython3*.so*"), *(root / "usr/local/lib").rglob("lib-dynload/*.so")]
    subprocess.run(["strip", "--strip-unneeded", *(path for path in binaries if not path.is_symlink())], check=True)
    for link in ("python3", "python"):
        (root / "usr/local/bin" / link).symlink_to("python3.13")
    subprocess.run(["chroot", str(root), "/sbin/ldconfig"], check=True)
    subprocess.run(
        ["chroot", str(root), "/usr/local/bin/python3", "-c", "import ssl, sqlite3, zlib, lzma, bz2, ctypes"],
        check=True,
    )


def _add_runtime(root: Path) -> None:
    """AWS's places: the interpreter, the runtime client with boto3, the emulator and the entry point."""
    languages, runtime = root / "var/lang/bin", root / "var/runtime"
    for folder in (languages, runtime, root / "var/task", root / "opt"):
        folder.mkdir(parents=True, exist_ok=True)
    for link in ("python3.13", "python3", "python"):
        (languages / link).symlink_to("/usr/local/bin/python3.13")
    parts = prepare_runtime()
    shutil.copytree(parts.packages, runtime, dirs_exist_ok=True)
    shutil.copy2(parts.emulator, root / "usr/local/bin/aws-lambda-rie")
    for path, text in ((runtime / "bootstrap", _BOOTSTRAP), (root / "lambda-entrypoint.sh", _ENTRY)):
        path.write_text(text)
        path.chmod(0o755)


def _import(root: Path, tag: str, *changes: str) -> None:
    tar = subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE)
    changes = (f"LABEL {LABEL}=1", *changes)
    options = [word for change in changes for word in ("-c", change)]
    subprocess.run(["docker", "import", *options, "-", tag], stdin=tar.stdout, check=True, stdout=subprocess.DEVNULL)
    if tar.wait():
        raise RuntimeError("tar failed")
    shown = subprocess.run(["docker", "image", "inspect", tag], capture_output=True, text=True, check=True)
    print(f"{tag}: {json.loads(shown.stdout)[0]['Size'] / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
