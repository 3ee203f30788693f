"""``python -m tests.docker``, which is `make test-docker`: the functions and the server in containers.

Packages the artefacts with the demo's model for this machine, has the base
images pulled where they are not there, and runs the tests of this folder. Where
something is missing, one sentence says what, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from infra.package.build import ROOT
from infra.package.target import host_target
from tests.docker import page
from tests.docker.stand_in import ADAPTER, LAMBDA, SERVER

_ENGINE_MODEL = "qwen3"


def missing() -> str | None:
    """What this machine lacks for the tests, in one sentence; None when nothing is."""
    if host_target() is None:
        return "Lambda's images are for x86_64 and arm64, and this machine is neither"
    if not (ROOT / ".venv-sam" / "bin" / "sam").exists():
        return "the SAM CLI is missing: `make sam` installs it"
    if not shutil.which("docker"):
        return "the command `docker` is missing: install Docker Engine or Docker Desktop"
    if subprocess.run(["docker", "info"], capture_output=True).returncode:
        return "the Docker daemon does not answer: start it, or allow this user to reach it"
    for image in (LAMBDA, SERVER, ADAPTER):
        if subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode and (
            subprocess.run(["docker", "pull", "-q", image], capture_output=True).returncode
        ):
            return (
                f"the base image {image} is missing and cannot be pulled: "
                "`python -m tests.docker.stand_in` makes stand-ins from Debian's packages"
            )
    return None


def main(arguments: list[str]) -> int:
    """Package, then test; further arguments go to pytest."""
    parser = argparse.ArgumentParser(prog="python -m tests.docker", description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="write docs/results/docker.md after the run")
    options, further = parser.parse_known_args(arguments)
    lacking = missing()
    if lacking:
        print(f"make test-docker: {lacking}", file=sys.stderr)
        return 1
    from infra.package.__main__ import main as package

    model = build_model()
    target = host_target()
    assert target is not None
    if package(["--arch", target.name, "--model", str(model)]):
        return 1
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-vv", f"--junit-xml={page.REPORT}"]
    command += ["tests/docker", *further]
    status = subprocess.run(command, cwd=ROOT).returncode
    if options.write:
        page.write()
    return status


def build_model() -> Path:
    """The demo's model folder."""
    from infra.models import build

    return build(_ENGINE_MODEL, ROOT / "build" / "models")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
