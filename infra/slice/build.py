"""Builds the slice's wheel: collects the modules, checks what they import from outside, and writes the file."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from infra.slice.assemble import Slice, assemble, denied_text
from infra.slice.errors import SliceError, SourceError
from infra.slice.registry import registered_parsers
from infra.slice.sources import Archive, InstalledArchive, Mount, Sources, WheelArchive
from infra.slice.spec import Specification
from infra.slice.vllm_0_33 import SLICE_VERSION, SPECIFICATION, UPSTREAM_VERSION
from infra.slice.wheel import write_wheel

# Third-party packages of which modules are copied into the slice, and where they go.
_VENDORED = {
    "mistral_common": "vllm._slice.mistral_common",
    "openai": "vllm._slice.openai",
    "xgrammar": "vllm._slice.xgrammar",
}


@dataclass(frozen=True)
class Report:
    """What was built."""

    wheel: Path
    kinds: dict[str, int]
    """Number of modules by kind of treatment."""
    denied: int
    size: int
    """Bytes of the wheel file."""


def _archives(wheel: Path, vendor_wheels: list[Path]) -> tuple[Archive, list[Mount]]:
    upstream = WheelArchive(wheel)
    if (upstream.name, upstream.version) != ("vllm", UPSTREAM_VERSION):
        raise SourceError(f"{wheel.name}: the specification is for vllm {UPSTREAM_VERSION}")
    given = {archive.name: archive for archive in map(WheelArchive, vendor_wheels)}
    mounts = [Mount(upstream, "vllm", "vllm")]
    for package, module in _VENDORED.items():
        archive: Archive = given.pop(package) if package in given else InstalledArchive(package)
        mounts.append(Mount(archive, package, module))
    if given:
        raise SourceError(f"not used by the slice: {', '.join(sorted(given))}")
    return upstream, mounts


def _check_third_party(spec: Specification, built: Slice) -> None:
    """Every package imported from outside must be one that the specification names."""
    for label, found, known in (
        ("at import time", built.third_party, spec.third_party),
        ("inside functions", built.third_party_late, spec.third_party | spec.third_party_late),
    ):
        for package, modules in sorted(found.items()):
            if package not in known and package not in sys.stdlib_module_names:
                first = sorted(modules)[0]
                raise SliceError(f"{first} imports {package!r} {label}, which the specification does not name")


def _licences(mount: Mount) -> dict[str, bytes]:
    """The distribution's licence files, under the name of its package."""
    found: dict[str, bytes] = {}
    for path in mount.archive.paths():
        folder, _, name = path.rpartition("/")
        if ".dist-info" in folder and name.upper().startswith(("LICENSE", "NOTICE", "COPYING")):
            data = mount.archive.read(path)
            if data is not None:
                found[f".dist-info/licenses/{mount.package}/{name}"] = data
    if not any("LICENSE" in path.upper() for path in found):
        raise SourceError(f"{mount.package} comes without a licence file")
    return found


def _metadata(licences: list[str], origins: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        "Name: vllm",
        f"Version: {SLICE_VERSION}",
        "Summary: vLLM's parsers and renderer, cut from the published wheel: no torch, no GPU",
        "License-Expression: Apache-2.0",
        *(f"License-File: {path.removeprefix('.dist-info/licenses/')}" for path in licences),
        "Requires-Python: >=3.11",
        "",
        f"Cut from {origins}. What was done to each module is in vllm/_slice/contents.json; the rest is unmodified.",
        "",
    ]
    return "\n".join(lines)


def build(wheel: Path, out: Path, vendor_wheels: list[Path]) -> Report:
    """Build the slice from a vLLM wheel.

    Parameters
    ----------
    wheel
        The published wheel, of the version that the specification is for.
    out
        The folder to write to.
    vendor_wheels
        Wheels of openai and xgrammar; one that is not given is read from this Python's environment.

    Raises a SliceError that says what is missing and who needs it.
    """
    upstream, mounts = _archives(wheel, vendor_wheels)
    sources = Sources(mounts)
    spec = dataclasses.replace(SPECIFICATION, roots=SPECIFICATION.roots + registered_parsers(sources))
    built = assemble(spec, sources)
    _check_third_party(spec, built)

    files = {module.path: module.text.encode() for module in built.modules.values()}
    files |= {path: denied_text().encode() for path in built.denied.values()}
    for pattern in spec.data:
        matches = fnmatch.filter(upstream.paths(), pattern)
        if not matches:
            raise SourceError(f"no file of the wheel matches {pattern}")
        for path in matches:
            data = upstream.read(path)
            assert data is not None
            files[path] = data
    contents = {
        "origins": {mount.package: mount.archive.version for mount in mounts},
        "modules": {name: module.kind for name, module in sorted(built.modules.items())},
        "denied": sorted(built.denied),
    }
    files["vllm/_slice/contents.json"] = (json.dumps(contents, indent=1, sort_keys=True) + "\n").encode()
    files["vllm/py.typed"] = b""
    licences: dict[str, bytes] = {}
    for mount in mounts:
        licences |= _licences(mount)
    origins = ", ".join(f"{mount.package} {mount.archive.version}" for mount in mounts)
    target = write_wheel(out, "vllm", SLICE_VERSION, _metadata(sorted(licences), origins), files | licences)
    kinds: dict[str, int] = {}
    for module in built.modules.values():
        kinds[module.kind] = kinds.get(module.kind, 0) + 1
    return Report(target, dict(sorted(kinds.items())), len(built.denied), target.stat().st_size)
