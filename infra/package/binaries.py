"""Compiled files: which machine, which Python and which C library each is for.

``check_binary`` is what keeps a wheel of the wrong platform out of a package,
where it would fail only at the first start in Lambda.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from infra.package.errors import PackageError
from infra.package.target import ABI, GLIBC, Target

_MAGIC = b"\x7fELF"
_EXTENSION = re.compile(r"\.(?P<abi>abi3|[a-z]+-?[0-9]+[a-z]*)(?:-(?P<triple>[A-Za-z0-9_]+-linux-[a-z]+))?\.so$")
# What every Amazon Linux has; all else must come along.
_SYSTEM = re.compile(r"^(lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|z)\.so\.\d+|ld-linux-[a-z0-9_-]+\.so\.\d+)$")
_DYNAMIC, _NEEDED = 6, 1  # a section's type, an entry's tag
_GLIBC = re.compile(rb"\x00GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\x00)")


@dataclass(frozen=True)
class Binary:
    """What a compiled file says of itself.

    ``abi`` and ``triple`` are from the name of an extension module ("abi3" or
    "cpython-313", "aarch64-linux-gnu"), None for a plain shared library;
    ``glibc`` is the newest version it asks for.
    """

    machine: int
    abi: str | None
    triple: str | None
    glibc: tuple[int, int]
    is_extension: bool


def is_binary(data: bytes) -> bool:
    """Whether a file holds machine code for Linux."""
    return data.startswith(_MAGIC)


def read_binary(name: str, data: bytes) -> Binary:
    """Read an ELF file's own account."""
    little = data[5] == 1
    (machine,) = struct.unpack_from("<H" if little else ">H", data, 18)
    tagged = _EXTENSION.search(name)
    versions = [(int(major), int(minor)) for major, minor in _GLIBC.findall(data)]
    return Binary(
        machine=machine,
        abi=tagged["abi"] if tagged else None,
        triple=tagged["triple"] if tagged else None,
        glibc=max(versions, default=(0, 0)),
        is_extension=b"\x00PyInit_" in data,
    )


def needed_libraries(data: bytes) -> list[str]:
    """The shared libraries that a 64-bit little-endian ELF file is linked with."""
    table, size, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + number * size) for number in range(count)]
    found: list[str] = []
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind == _DYNAMIC:
            names = sections[link][4]
            for at in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<qQ", data, at)
                if tag == _NEEDED:
                    start = names + value
                    found.append(data[start : data.index(b"\0", start)].decode())
    return found


def check_libraries(binaries: Mapping[str, bytes]) -> None:
    """Refuse files that are linked with a library that neither the runtime nor the package has.

    Raises:
        PackageError: names the file and the library.
    """
    present = {name.rpartition("/")[2] for name in binaries}
    for name, data in binaries.items():
        for library in needed_libraries(data):
            if library not in present and not _SYSTEM.match(library):
                raise PackageError(f"{name} is linked with {library}, which is not in the package")


def check_binary(name: str, data: bytes, target: Target) -> None:
    """Refuse a compiled file that the target cannot load.

    Raises:
        PackageError: names the file and its fault.
    """
    binary = read_binary(name, data)
    if binary.machine != target.machine:
        raise PackageError(f"{name} is for ELF machine {binary.machine}, {target.name} is {target.machine}")
    if binary.is_extension and binary.abi not in ("abi3", ABI):
        raise PackageError(f"{name} is an extension module for {binary.abi or 'an unnamed ABI'}, not {ABI} or abi3")
    if binary.triple is not None and binary.triple != target.triple:
        raise PackageError(f"{name} is named for {binary.triple}, not {target.triple}")
    if binary.glibc > GLIBC:
        raise PackageError(
            f"{name} needs glibc {binary.glibc[0]}.{binary.glibc[1]}, the runtime has {GLIBC[0]}.{GLIBC[1]}"
        )
