"""Where upstream code is read from: wheels, or distributions that are installed with pip.

Reads only; never imports upstream code, so building needs neither torch nor any other dependency of vLLM.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
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
    """A wheel: the file, or one of which only the parts that are read are here (see ranges)."""

    def __init__(self, path: Path, content: io.RawIOBase | None = None, record_sha256: str | None = None) -> None:
        """Read the wheel's directory and RECORD.

        Parameters
        ----------
        path
            The file; of a wheel in `content`, where its file name is read from.
        content
            The wheel's bytes, when they are not those of the file.
        record_sha256
            RECORD's SHA-256, in hexadecimal digits. Everything that is read is then known by it, whatever the other
            bytes of the wheel are.
        """
        try:
            self._zip = zipfile.ZipFile(path if content is None else content)
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
        text = self._zip.read(record)
        self.record_sha256 = hashlib.sha256(text).hexdigest()
        if record_sha256 not in (None, self.record_sha256):
            raise SourceError(f"{path.name}: RECORD has not the SHA-256 sum that is pinned")
        self._record = _parse_record(text.decode())
        self._known = frozenset(self._paths)

    def read(self, path: str) -> bytes | None:
        if path not in self._known:
            return None
        return _check(self._label, path, self._zip.read(path), self._record)

    def paths(self) -> list[str]:
        return self._paths

    def size(self, path: str) -> int:
        """A file's size in bytes, uncompressed."""
        return self._zip.getinfo(path).file_size


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
    """An archive's package, and the module name under which the slice holds it. Both with dots."""

    archive: Archive
    package: str
    module: str


class Sources:
    """Upstream modules by the name that they have inside the slice."""

    def __init__(self, mounts: list[Mount]) -> None:
        # The longest name first: vendored packages and those that moved lie inside vllm's own name space.
        self._mounts = sorted(mounts, key=lambda mount: -len(mount.module))

    def find(self, module: str) -> ModuleSource | None:
        """The module's source, or None when no archive has it."""
        outer = module.replace(".", "/")
        for mount in self._mounts_of(module):
            for suffix, is_package in (("/__init__.py", True), (".py", False)):
                data = mount.archive.read(self._inner(mount, module) + suffix)
                if data is not None:
                    return ModuleSource(module, outer + suffix, is_package, data.decode())
        return None

    def compiled(self, module: str) -> str | None:
        """The path of the module's machine code in its archive, or None when it is not machine code."""
        for mount in self._mounts_of(module):
            inner = self._inner(mount, module)
            for path in mount.archive.paths():
                if path.startswith(f"{inner}.") and path.endswith(".so"):
                    return path
        return None

    def origin(self, module: str) -> str:
        """The distribution that the module is read from, and its version."""
        mount = next(self._mounts_of(module), None)
        return f"{mount.archive.name} {mount.archive.version}" if mount else ""

    def names(self) -> Iterator[str]:
        """Every module that the archives have, by the name that it has inside the slice."""
        for mount in self._mounts:
            for path in mount.archive.paths():
                inner = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                if path.endswith(".py") and (inner == mount.package or inner.startswith(mount.package + ".")):
                    yield mount.module + inner[len(mount.package) :]

    def where(self, name: str, near: str) -> str:
        """In words, which modules around `near` define a name: its package's and those below its parent."""
        around = near.rpartition(".")[0]
        found = []
        for module in self.names():
            if module == near or not module.startswith(around) or module.count(".") > near.count(".") + 1:
                continue
            source = self.find(module)
            if source is not None and re.search(
                rf"^(?:async def|def|class) {name}\b|^{name}\s*[:=]", source.text, re.M
            ):
                found.append(module)
        return f"defined in {', '.join(found[:4])}" if found else f"no module of {around} defines it"

    def _mounts_of(self, module: str) -> Iterator[Mount]:
        return (m for m in self._mounts if module == m.module or module.startswith(m.module + "."))

    @staticmethod
    def _inner(mount: Mount, module: str) -> str:
        return (mount.package + module[len(mount.module) :]).replace(".", "/")
