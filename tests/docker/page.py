"""``docs/results/docker.md``, made from a run of `make test-docker`."""

from __future__ import annotations

import platform
import re
import subprocess
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

from infra.package.build import ROOT
from tests.docker.stand_in import LABEL, LAMBDA

PATH = ROOT / "docs" / "results" / "docker.md"
REPORT = ROOT / "build" / "docker-tests.xml"
TARGETS = ("derender", "render", "relay", "serve")
_PAGE = """# Containers: results

`make test-docker ARGS=--write` writes this page; [deploy.md](../deploy.md#local-runs) and [kubernetes.md](../kubernetes.md#image)
say what is tried.

{date}, Docker {docker}, {machine}, {base}: {passed} tests passed, {failed} failed, in {minutes:.0f} minutes.

| image | MB |
|---|---|
{images}

| test | seconds |
|---|---|
{tests}
"""
_AWS = "with AWS's and Docker's base images"
_STAND_IN = "with stand-ins for the base images (AWS's layout, Debian's C library)"


def text(report: Path, sizes: dict[str, int], docker: str, base: str) -> str:
    """The page for a JUnit report; ``sizes`` are bytes by image."""
    cases = list(ET.parse(report).getroot().iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    rows = [
        f"| {_title(case)}{', failed' if case in failed else ''} | {float(case.attrib['time']):.1f} |" for case in cases
    ]
    return _PAGE.format(
        date=datetime.now(UTC).date(),
        docker=docker,
        machine=platform.machine(),
        base=base,
        passed=len(cases) - len(failed),
        failed=len(failed),
        minutes=sum(float(case.attrib["time"]) for case in cases) / 60,
        images="\n".join(f"| {name} | {size / 1e6:.0f} |" for name, size in sizes.items()),
        tests="\n".join(rows),
    )


def write() -> None:
    """Put the page of the last run where the documents link to it."""
    sizes = {name: int(_docker("image", "inspect", "-f", "{{.Size}}", f"derender-test-{name}")) for name in TARGETS}
    is_stand_in = LABEL in _docker("image", "inspect", "-f", "{{json .Config.Labels}}", LAMBDA)
    version = _docker("version", "-f", "{{.Server.Version}}")
    PATH.write_text(text(REPORT, sizes, version, _STAND_IN if is_stand_in else _AWS), encoding="utf-8")


def _title(case: ET.Element) -> str:
    name, _, parameter = case.attrib["name"].partition("[")
    return re.sub(r"^test ", "", name.replace("_", " ")) + (f": {parameter.rstrip(']')}" if parameter else "")


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
