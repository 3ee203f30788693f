"""Downloads the published vLLM wheel, checked against its hash, whatever machine this runs on."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

from infra.slice.errors import SourceError

DEFAULT_CACHE = Path.home() / ".cache" / "derender"

_PLATFORM = "manylinux_2_28_x86_64"


def _is_pinned(wheel: Path, hashes: set[str]) -> bool:
    with wheel.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() in hashes


def fetch(requirements: Path, cache: Path) -> Path:
    """The wheel that `requirements` pins, from `cache` or downloaded into it; its hash is checked in both cases.

    Only Python code is used of the wheel, so the platform does not matter: it is always the same one, for the same
    bytes everywhere.
    """
    text = requirements.read_text(encoding="utf-8")
    pinned = re.search(r"^vllm==(\S+)", text, re.MULTILINE)
    hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", text))
    if pinned is None or not hashes:
        raise SourceError(f"{requirements.name} does not pin vllm with a hash")
    pattern = f"vllm-{pinned[1]}-*{_PLATFORM}.whl"
    for wheel in sorted(cache.glob(pattern)):
        if _is_pinned(wheel, hashes):
            return wheel
    cache.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--require-hashes", "--only-binary=:all:", "--platform", _PLATFORM, "--dest", str(cache),
        "--requirement", str(requirements),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SourceError(f"pip could not download vllm {pinned[1]}: {done.stderr.strip()}")
    found = sorted(cache.glob(pattern))
    if len(found) != 1:
        raise SourceError(f"expected one wheel of vllm {pinned[1]} in {cache}, found {len(found)}")
    return found[0]
