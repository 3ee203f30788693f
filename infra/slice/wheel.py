"""Writes a wheel whose bytes depend on its contents only: fixed order, times and permissions, nothing compressed.

Compressed bytes would depend on the machine's zlib.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

# The first moment that a zip file can hold.
_EPOCH = (1980, 1, 1, 0, 0, 0)

_WHEEL = """\
Wheel-Version: 1.0
Generator: infra.slice
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_wheel(folder: Path, name: str, version: str, metadata: str, files: Mapping[str, bytes]) -> Path:
    """Write `{name}-{version}-py3-none-any.whl` into `folder` and return its path.

    Parameters
    ----------
    metadata
        The METADATA file's text.
    files
        Contents by path below site-packages; paths that start with `.dist-info/` go into the wheel's own folder.
    """
    info = f"{name}-{version}.dist-info"
    contents = {
        info + path.removeprefix(".dist-info") if path.startswith(".dist-info/") else path: data
        for path, data in files.items()
    }
    contents[f"{info}/METADATA"] = metadata.encode()
    contents[f"{info}/WHEEL"] = _WHEEL.encode()
    record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in sorted(contents.items()))
    record += f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}-{version}-py3-none-any.whl"
    partial = target.with_suffix(".part")
    # The dist-info folder goes last, as the wheel format recommends.
    order = sorted(contents, key=lambda path: (path.startswith(info), path))
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        for path, data in [*((path, contents[path]) for path in order), (f"{info}/RECORD", record.encode())]:
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, data)
    partial.replace(target)
    return target
