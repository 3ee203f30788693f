"""The zip of a function: the same files give the same bytes, on any machine. And what an image is built of.

The files are stored, not deflated: what deflate makes of the same bytes
depends on the zlib that does it, and Lambda unpacks the archive when it is
deployed, not when it starts.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

# The oldest date that a zip can hold.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644
_SCRIPT_MODE = 0o100755


def write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the zip, whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.create_system = 3  # Unix, wherever this runs: the mode below is Unix's
                entry.external_attr = (_SCRIPT_MODE if _is_script(files[name]) else _MODE) << 16
                archive.writestr(entry, files[name])
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_tar(path: Path, archive: Path) -> None:
    """The files of a zip as a compressed tar, which `docker build` unpacks by itself and is sent quickly."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with (
            zipfile.ZipFile(archive) as content,
            open(partial, "wb") as file,
            gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
            tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as tar,
        ):
            for entry in content.infolist():
                info = tarfile.TarInfo(entry.filename)
                info.size, info.mode = entry.file_size, entry.external_attr >> 16 & 0o777
                tar.addfile(info, io.BytesIO(content.read(entry)))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def unpack(path: Path, folder: Path) -> None:
    """Unpack a function's zip into a new folder, as Lambda does; whole or not at all."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(partial)
        for entry in archive.infolist():
            (partial / entry.filename).chmod(entry.external_attr >> 16 & 0o777)
    try:
        partial.rename(folder)
    except OSError:  # another process was faster
        import shutil

        shutil.rmtree(partial)


def _is_script(data: bytes) -> bool:
    return data.startswith(b"#!/bin/sh\n")
