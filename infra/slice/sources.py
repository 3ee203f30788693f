"""Where upstream code is read from: wheels, or distributions that are installed with pip.

Reads only; never imports upstream code, so building needs neither torch nor any other dependency of vLLM.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from infra.slice.errors import SourceError


class Archive(Protocol):
    """Files of one distribution, by their path below site-packages."""

    name: str
    version: str

    def read(self, path: str) -> bytes | None:
        """The file's bytes, or None when the distribution has no such file."""

    def paths(self) -> list[str]:
        """Every file's path, sorted."""


def _check(label: str, path: str, data: bytes, record: Mapping[str, str]) -> bytes:
    """Compare with the distribution's RECORD, so that an edited file never ends up in a build unnoticed."""
    algorithm, _, expected = record.get(path, "").partition("=")
    if algorithm != "sha256":
        raise SourceError(f"{label}: {path} is not covered by a SHA-256 sum in RECORD")
    actual = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    if actual != expected:
        raise SourceError(f"{label}: {path} differs from its SHA-256 sum in RECORD")
    return data


def _parse_record(text: str) -> dict[str, str]:
    return {row[0]: row[1] for row in csv.reader(io.StringIO(text)) if len(row) >= 2}


class WheelArchive:
    """A wheel file."""

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise SourceError(f"{path} is not a readable wheel: {error}") from error
        parts = path.name.split("-")
        if path.suffix != ".whl" or len(parts) < 5:
            raise SourceError(f"{path.name} is not a wheel's file name")
        self.name, self.version = parts[0], parts[1]
        self._label = path.name
        self._paths = sorted(n for n in self._zip.namelist() if not n.endswith("/"))
        record = next((n for n in self._paths if n.endswith(".dist-info/RECORD")), None)
        if record is None:
            raise SourceError(f"{path.name} has no RECORD")
        self._record = _parse_record(self._zip.read(record).decode())
        self._known = frozenset(self._paths)

    def read(self, path: str) -> bytes | None:
        if path not in self._known:
            return None
        return _check(self._label, path, self._zip.read(path), self._record)

    def paths(self) -> list[str]:
        return self._paths


class InstalledArchive:
    """A distribution installed in the environment that runs the build."""

    def __init__(self, name: str) -> None:
        try:
            self._distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            raise SourceError(f"{name} is neither installed here nor given as a wheel") from error
        self.name = name
        self.version = self._distribution.version
        record = self._distribution.read_text("RECORD")
        if record is None:
            raise SourceError(f"{name} is installed without a RECORD")
        self._record = _parse_record(record)

    def read(self, path: str) -> bytes | None:
        if path not in self._record:
            return None
        try:
            data = Path(str(self._distribution.locate_file(path))).read_bytes()
        except OSError as error:
            raise SourceError(f"{self.name}: {error}") from error
        return _check(self.name, path, data, self._record)

    def paths(self) -> list[str]:
        return sorted(self._record)


@dataclass(frozen=True)
class ModuleSource:
    """One upstream module: where its text goes in the slice, and the text."""

    name: str
    path: str
    is_package: bool
    text: str

    @property
    def package(self) -> str:
        """What relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Mount:
    """An archive's package, and the module name under which the slice holds it."""

    archive: Archive
    package: str
    module: str


class Sources:
    """Upstream modules by the name that they have inside the slice."""

    def __init__(self, mounts: list[Mount]) -> None:
        # The longest name first: a vendored package lies inside vllm's own name space.
        self._mounts = sorted(mounts, key=lambda mount: -len(mount.module))

    def find(self, module: str) -> ModuleSource | None:
        """The module's source, or None when no archive has it."""
        for mount in self._mounts:
            if module != mount.module and not module.startswith(mount.module + "."):
                continue
            inner = (mount.package + module[len(mount.module) :]).replace(".", "/")
            outer = module.replace(".", "/")
            for suffix, is_package in (("/__init__.py", True), (".py", False)):
                data = mount.archive.read(inner + suffix)
                if data is not None:
                    return ModuleSource(module, outer + suffix, is_package, data.decode())
            return None
        return None
