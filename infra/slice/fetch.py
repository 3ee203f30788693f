"""The published wheels of vLLM: found with pip, known by their pinned sums, fetched in parts where the index allows it.

`requirements/vllm-<version>.txt` pins one version: the sums of its wheels, and of the RECORD of the one wheel that the
Python code is always read from, for the same bytes on every machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from infra.slice.errors import SourceError
from infra.slice.ranges import NoRanges, RangedFile
from infra.slice.sources import WheelArchive

DEFAULT_CACHE = Path.home() / ".cache" / "derender"
REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"

MACHINES = ("x86_64", "aarch64")
"""The processors that machine code of a wheel is copied for. Python code is read from the first one's wheel."""

# vLLM's wheels follow the C library that they are built with; pip takes the first of these that there is.
_PLATFORMS = ("manylinux_2_28", "manylinux_2_31", "manylinux_2_34", "manylinux_2_35", "manylinux_2_39", "manylinux2014")


@dataclass(frozen=True)
class Pin:
    """What is known of a version's wheels: SHA-256 sums in hexadecimal digits."""

    version: str
    wheels: frozenset[str]
    records: dict[str, str]
    """RECORD's, by machine."""


def pin(version: str, folder: Path = REQUIREMENTS) -> Pin:
    """The sums that the version's requirements file pins."""
    path = folder / f"vllm-{version}.txt"
    if not path.is_file():
        raise SourceError(f"{path.name} is missing: `python -m infra.slice pin --version {version}` writes it")
    text = path.read_text(encoding="utf-8")
    wheels = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", text))
    records = dict(re.findall(r"^# RECORD (\S+) sha256:([0-9a-f]{64})$", text, re.MULTILINE))
    if not re.search(rf"^vllm=={re.escape(version)}\s", text, re.MULTILINE) or not wheels:
        raise SourceError(f"{path.name} does not pin vllm {version} with a hash")
    return Pin(version, wheels, records)


def published(version: str, cache: Path = DEFAULT_CACHE, machine: str = MACHINES[0]) -> WheelArchive:
    """A published wheel, to read from; what is read comes from `cache`, or is fetched into it.

    A wheel that is whole in the cache is used as it is. Otherwise only the parts that are read are fetched; from an
    index that gives whole files only, the wheel.
    """
    pinned = pin(version)
    whole = _whole(pinned, cache, machine)
    if whole is not None:
        return WheelArchive(whole)
    if machine in pinned.records:
        try:
            return _in_parts(pinned, cache, machine)
        except NoRanges:
            pass
    return WheelArchive(download(version, cache, machine))


def download(version: str, cache: Path = DEFAULT_CACHE, machine: str = MACHINES[0]) -> Path:
    """The whole wheel, from `cache` or downloaded into it."""
    pinned = pin(version)
    cache.mkdir(parents=True, exist_ok=True)
    if _whole(pinned, cache, machine) is None:
        given = ["--require-hashes", "--dest", str(cache), "--requirement", str(REQUIREMENTS / f"vllm-{version}.txt")]
        _pip("download", machine, *given)
    found = _whole(pinned, cache, machine)
    if found is None:
        raise SourceError(f"no wheel of vllm {version} in {cache} after its download")
    return found


def _whole(pinned: Pin, cache: Path, machine: str) -> Path | None:
    for wheel in sorted(cache.glob(f"vllm-{pinned.version}-*{machine}.whl")):
        with wheel.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() in pinned.wheels:
                return wheel
    return None


def _in_parts(pinned: Pin, cache: Path, machine: str) -> WheelArchive:
    folder = cache / "parts" / pinned.version / machine
    known = folder / "wheel.json"
    try:
        entry = json.loads(known.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        entry = dict(zip(("url", "sha256"), find(pinned.version, machine), strict=True))
        if entry["sha256"] not in pinned.wheels:
            raise SourceError(f"the index has another wheel of vllm {pinned.version} than the pinned one") from None
        folder.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(entry), encoding="utf-8")
    name = unquote(urlsplit(entry["url"]).path.rpartition("/")[2])
    content = RangedFile(entry["url"], folder / name.replace(".whl", ".parts"))
    return WheelArchive(folder / name, content, pinned.records[machine])


def find(version: str, machine: str) -> tuple[str, str]:
    """The address and the SHA-256 sum of a version's wheel, as the index that pip is set up for gives them."""
    report = _pip("install", machine, "--dry-run", "--ignore-installed", "--report", "-", f"vllm=={version}")
    try:
        info: dict[str, Any] = json.loads(report)["install"][0]["download_info"]
        return info["url"], info["archive_info"]["hashes"]["sha256"]
    except (ValueError, LookupError) as error:
        raise SourceError(f"pip does not say where vllm {version} is: {error!r}") from error


def _pip(command: str, machine: str, *words: str) -> str:
    """Run pip for a machine that need not be this one; what it wrote."""
    platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_{machine}")]
    target = ["--target", "."] if command == "install" else []
    whole = [
        sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check", "--no-deps",
        "--only-binary=:all:", *platforms, *target, *words,
    ]  # fmt: skip
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SourceError(f"pip found no wheel of vllm: {done.stderr.strip()}")
    return done.stdout


def write_pin(version: str, cache: Path = DEFAULT_CACHE, folder: Path = REQUIREMENTS) -> Path:
    """Write the requirements file of a version from what the index says of its wheels.

    RECORD is read from each wheel itself, in parts: who trusts the index's sums today can hold it to them later.
    """
    found = {machine: find(version, machine) for machine in MACHINES}
    lines = [
        f"# The published wheels of vLLM {version}, of which infra/slice cuts the parsers. They are never installed.",
        " \\\n    ".join([f"vllm=={version}", *sorted(f"--hash=sha256:{digest}" for _, digest in found.values())]),
    ]
    for machine, (url, _) in found.items():
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        parts = cache / "parts" / version / machine / name.replace(".whl", ".parts")
        try:
            lines.append(f"# RECORD {machine} sha256:{WheelArchive(Path(name), RangedFile(url, parts)).record_sha256}")
        except NoRanges:
            # Then the whole wheel is fetched, and its own sum is what counts.
            continue
    path = folder / f"vllm-{version}.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
