"""The manifest of a model bundle: which files it holds, with their SHA-256 sums.

A bundle is a folder that ``derender bundle`` wrote. Its manifest lists every
file; what is not listed does not exist for the loader, and a file whose bytes
differ from the sum is never used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from core.errors import ConfigurationError

MANIFEST_NAME = "derender-manifest.json"
_VERSION = 1
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?")
_SUM = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class FileEntry:
    """Size in bytes and SHA-256 (hex) of one file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The files of a bundle by name (relative, at most one folder deep).

    ``encoder_proof`` says that a fast encoder was compared with the tokenizer, and with what result
    (``core.tokenizer.fast.proof`` reads it); None where none was.
    """

    files: Mapping[str, FileEntry]
    encoder_proof: Mapping[str, Any] | None = None

    def check(self, name: str, data: bytes) -> bytes:
        """Return ``data`` when it is what the manifest promises.

        Raises:
            ConfigurationError: names the file and what differs.
        """
        entry = self.files[name]
        if len(data) != entry.size:
            raise ConfigurationError(
                f"model bundle: {name} has {len(data)} bytes, the manifest says {entry.size}: "
                f"it is incomplete or altered"
            )
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise ConfigurationError(f"model bundle: {name} does not match its SHA-256 in the manifest: it was altered")
        return data


def entry_of(data: bytes) -> FileEntry:
    return FileEntry(size=len(data), sha256=hashlib.sha256(data).hexdigest())


def dump_manifest(manifest: Manifest) -> bytes:
    """The manifest as bytes; the same files give the same bytes."""
    files = {name: {"size": e.size, "sha256": e.sha256} for name, e in sorted(manifest.files.items())}
    proof = {} if manifest.encoder_proof is None else {"encoder": dict(manifest.encoder_proof)}
    return orjson.dumps({"version": _VERSION, "files": files, **proof}, option=orjson.OPT_INDENT_2) + b"\n"


def load_manifest(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        ConfigurationError: not a manifest, another version, or a name that leaves the bundle.
    """
    try:
        value = orjson.loads(data)
        if value["version"] != _VERSION:
            raise ConfigurationError(f"{MANIFEST_NAME} is of version {value['version']}; this release reads {_VERSION}")
        files: dict[str, FileEntry] = {}
        for name, entry in value["files"].items():
            size, digest = entry["size"], entry["sha256"]
            if not _SAFE_NAME.fullmatch(name) or {".", ".."}.intersection(name.split("/")):
                raise ConfigurationError(f"{MANIFEST_NAME}: {name!r} is not a file name of a bundle")
            if type(size) is not int or size < 0 or not _SUM.fullmatch(digest):
                raise ConfigurationError(f"{MANIFEST_NAME}: the entry of {name} is malformed")
            files[name] = FileEntry(size=size, sha256=digest)
        proof = value.get("encoder")
        if proof is not None and not isinstance(proof, dict):
            raise ConfigurationError(f"{MANIFEST_NAME}: the proof of the fast encoder is malformed")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as exc:
        raise ConfigurationError(f"{MANIFEST_NAME} is not a manifest: {exc!r}") from exc
    return Manifest(files=files, encoder_proof=proof)
