"""Builds the slice's wheel: collects the modules, checks what they import from outside, and writes the file."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from infra.slice.assemble import Slice, denied_text, survey
from infra.slice.compiled import folder
from infra.slice.errors import OutsidePackage, SliceError, SourceError, Stopped
from infra.slice.fetch import DEFAULT_CACHE, MACHINES, published
from infra.slice.hand import HandModules
from infra.slice.registry import registered_parsers
from infra.slice.sources import Archive, InstalledArchive, Mount, Sources, WheelArchive
from infra.slice.spec import Specification
from infra.slice.versions import specification
from infra.slice.wheel import write_wheel


@dataclass(frozen=True)
class Report:
    """What was built."""

    wheel: Path
    kinds: dict[str, int]
    """Number of modules by kind of treatment."""
    denied: int
    size: int
    """Bytes of the wheel file."""


@dataclass(frozen=True)
class Upstream:
    """What a slice is read from."""

    vllm: Archive
    machine_code: Callable[[str], Archive]
    """vLLM's wheel for another processor, by its name."""
    vendored: Mapping[str, Archive]
    other: Callable[[str], Sources]
    """vLLM's modules in another version."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The specification's."""

    def mounts(self) -> list[Mount]:
        """vLLM first, then the packages of which modules are copied."""
        others = [Mount(archive, name, f"vllm._slice.{name}") for name, archive in sorted(self.vendored.items())]
        return [*_mounts(self.vllm, self.packages), *others]


def _mounts(vllm: Archive, packages: Mapping[str, str]) -> list[Mount]:
    """vLLM, and those of its packages that the slice has under other names."""
    return [Mount(vllm, "vllm", "vllm"), *(Mount(vllm, theirs, kept) for kept, theirs in packages.items())]


def upstream(
    spec: Specification,
    wheel: Path | None = None,
    vendor_wheels: Sequence[Path] = (),
    cache_folder: Path = DEFAULT_CACHE,
) -> Upstream:
    """Where the modules of one version are read from.

    Parameters
    ----------
    spec
        The version's specification.
    wheel
        The published wheel of vLLM; without it, it is fetched.
    vendor_wheels
        Wheels of the vendored packages; one that is not given is read from this Python's environment.
    cache_folder
        Where what is fetched is kept.
    """
    archive = WheelArchive(wheel) if wheel else published(spec.version, cache_folder)
    if (archive.name, archive.version) != ("vllm", spec.version):
        raise SourceError(f"{wheel}: the specification is for vllm {spec.version}")
    given = {each.name: each for each in map(WheelArchive, vendor_wheels)}
    vendored: dict[str, Archive] = {}
    for package, version in spec.vendored.items():
        found: Archive = given.pop(package) if package in given else InstalledArchive(package)
        if found.version != version:
            raise SourceError(
                f"the specification is for {package} {version}, and {found.version} is here: "
                "name the new version there, and count the slice's revision up"
            )
        vendored[package] = found
    if given:
        raise SourceError(f"not used by the slice: {', '.join(sorted(given))}")

    @cache
    def other(version: str) -> Sources:
        return Sources(_mounts(published(version, cache_folder), specification(version).packages))

    def machine_code(machine: str) -> Archive:
        return archive if machine == MACHINES[0] else published(spec.version, cache_folder, machine)

    return Upstream(archive, machine_code, vendored, other, spec.packages)


def collect(spec: Specification, given: Upstream, hand: HandModules | None = None) -> Slice:
    """The slice's modules, with all that is wrong."""
    sources = Sources(given.mounts())
    kept = {theirs: name for name, theirs in spec.packages.items()}
    roots = spec.roots + registered_parsers(sources)
    whole = dataclasses.replace(spec, roots=roots, redirects={**spec.redirects, **kept})
    found = survey(whole, sources, hand or HandModules(spec.version), given.other)
    found.stops += _outside(spec, found)
    return found


def _outside(spec: Specification, built: Slice) -> list[SliceError]:
    """The packages imported from outside that the specification does not name."""
    stops: list[SliceError] = []
    for when, found, known in (
        ("at import time", built.third_party, spec.third_party),
        ("inside functions", built.third_party_late, spec.third_party | spec.third_party_late),
    ):
        for package, modules in sorted(found.items()):
            if package not in known and package not in sys.stdlib_module_names:
                stops.append(OutsidePackage(min(modules), package, when))
    return stops


def _licences(mount: Mount) -> dict[str, bytes]:
    """The distribution's licence files, under the name of its package."""
    found: dict[str, bytes] = {}
    for path in mount.archive.paths():
        parent, _, name = path.rpartition("/")
        if ".dist-info" in parent and name.upper().startswith(("LICENSE", "NOTICE", "COPYING")):
            data = mount.archive.read(path)
            if data is not None:
                found[f".dist-info/licenses/{mount.package}/{name}"] = data
    if not any("LICENSE" in path.upper() for path in found):
        raise SourceError(f"{mount.package} comes without a licence file")
    return found


def _metadata(slice_version: str, licences: list[str], origins: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        "Name: vllm",
        f"Version: {slice_version}",
        "Summary: vLLM's parsers and renderer, cut from the published wheel: no torch, no GPU",
        "License-Expression: Apache-2.0",
        *(f"License-File: {path.removeprefix('.dist-info/licenses/')}" for path in licences),
        "Requires-Python: >=3.11",
        "",
        f"Cut from {origins}. What was done to each module is in vllm/_slice/contents.json; the rest is unmodified.",
        "",
    ]
    return "\n".join(lines)


def _data(patterns: Sequence[str], archive: Archive) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for pattern in patterns:
        matches = fnmatch.filter(archive.paths(), pattern)
        if not matches:
            raise SourceError(f"no file of the wheel matches {pattern}")
        for path in matches:
            data = archive.read(path)
            assert data is not None
            files[path] = data
    return files


def _machine_code(modules: set[str], given: Upstream) -> dict[str, bytes]:
    """The modules of machine code, for each processor, beside the loader that stands for each."""
    files: dict[str, bytes] = {}
    for module in sorted(modules):
        for machine in MACHINES:
            archive = given.machine_code(machine)
            path = Sources(_mounts(archive, given.packages)).compiled(module)
            data = archive.read(path) if path is not None else None
            if data is None:
                raise SourceError(f"vllm's wheel for {machine} has no machine code of {module}")
            files[f"{folder(module)}/{machine}.abi3.so"] = data
    return files


def build(spec: Specification, given: Upstream, out: Path) -> Report:
    """Write the slice's wheel into `out`. Raises Stopped with everything that is wrong, or SourceError."""
    built = collect(spec, given)
    if built.stops:
        raise Stopped(built.stops)
    files = {module.path: module.text.encode() for module in built.modules.values()}
    files |= {path: denied_text().encode() for path in built.denied.values()}
    files |= _data(spec.data, given.vllm) | _machine_code(built.compiled, given)
    mounts = given.mounts()
    contents = {
        "version": spec.slice_version,
        "origins": {mount.package: mount.archive.version for mount in mounts},
        "borrowed": {name: spec.borrow[name].version for name in sorted(spec.borrow)},
        "modules": {name: module.kind for name, module in sorted(built.modules.items())},
        "denied": sorted(built.denied),
    }
    files["vllm/_slice/contents.json"] = (json.dumps(contents, indent=1, sort_keys=True) + "\n").encode()
    # Read by core, which imports nothing of the slice to know its version.
    files["vllm/_slice/version"] = f"{spec.slice_version}\n".encode()
    files["vllm/py.typed"] = b""
    licences: dict[str, bytes] = {}
    for mount in mounts:
        licences |= _licences(mount)
    versions = sorted({entry.version for entry in spec.borrow.values()})
    origins = ", ".join(
        [*(f"{mount.package} {mount.archive.version}" for mount in mounts), *(f"vllm {each}" for each in versions)]
    )
    metadata = _metadata(spec.slice_version, sorted(licences), origins)
    target = write_wheel(out, "vllm", spec.slice_version, metadata, files | licences)
    kinds: dict[str, int] = {}
    for module in built.modules.values():
        kinds[module.kind] = kinds.get(module.kind, 0) + 1
    return Report(target, dict(sorted(kinds.items())), len(built.denied), target.stat().st_size)
