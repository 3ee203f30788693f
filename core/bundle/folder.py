"""A model's files in a local folder: a bundle with a manifest, or a published model folder as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from core.bundle.manifest import MANIFEST_NAME, Manifest, load_manifest
from core.errors import ConfigurationError


class ModelFiles(Protocol):
    """Where a model's files are read from. Names are relative, with forward slashes."""

    @property
    def origin(self) -> str:
        """The folder or address, for messages."""
        ...

    def names(self) -> list[str]:
        """All file names, sorted.

        Raises:
            ConfigurationError: the folder cannot be read.
        """
        ...

    def read(self, name: str) -> bytes:
        """The whole file, checked.

        Raises:
            ConfigurationError: the file is absent, unreadable or altered.
        """
        ...

    def digest(self, name: str) -> str:
        """The SHA-256 of a file, in hexadecimal; from the manifest where there is one."""
        ...

    @property
    def encoder_proof(self) -> Mapping[str, Any] | None:
        """What the manifest says of the fast encoder, None where it says nothing."""
        ...


class FolderFiles:
    """Files below one folder, checked against the manifest when there is one.

    Raises:
        ConfigurationError: the folder does not exist or cannot be read, or its manifest is malformed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._manifest: Manifest | None = None
        manifest = path / MANIFEST_NAME
        try:
            if not path.is_dir():
                raise ConfigurationError(f"model folder {path} does not exist or is not a folder")
            if manifest.is_file():
                self._manifest = load_manifest(manifest.read_bytes())
        except OSError as exc:
            raise ConfigurationError(f"model folder {path}: cannot read it: {exc.strerror}") from exc

    @property
    def origin(self) -> str:
        return str(self._path)

    @property
    def manifest(self) -> Manifest | None:
        """The manifest, None for a plain model folder."""
        return self._manifest

    def names(self) -> list[str]:
        if self._manifest is not None:
            return sorted(self._manifest.files)
        try:
            found = [p for p in self._path.iterdir() if p.is_file()]
            # Named chat templates live one level down; nothing else of a model folder is needed from there.
            for folder in ("chat_templates", "additional_chat_templates"):
                if (self._path / folder).is_dir():
                    found += [p for p in (self._path / folder).iterdir() if p.suffix == ".jinja"]
        except OSError as exc:
            raise ConfigurationError(f"model folder {self._path}: cannot read it: {exc.strerror}") from exc
        return sorted(p.relative_to(self._path).as_posix() for p in found)

    def read(self, name: str) -> bytes:
        if self._manifest is not None and name not in self._manifest.files:
            raise ConfigurationError(f"model bundle: {name} is not in the manifest")
        try:
            data = (self._path / name).read_bytes()
        except OSError as exc:
            raise ConfigurationError(f"model folder {self._path}: cannot read {name}: {exc.strerror}") from exc
        return data if self._manifest is None else self._manifest.check(name, data)

    def digest(self, name: str) -> str:
        if self._manifest is not None and name in self._manifest.files:
            return self._manifest.files[name].sha256
        return hashlib.sha256(self.read(name)).hexdigest()

    @property
    def encoder_proof(self) -> Mapping[str, Any] | None:
        return None if self._manifest is None else self._manifest.encoder_proof
