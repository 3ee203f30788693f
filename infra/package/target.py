"""The platforms that are built for: Lambda's Python 3.13 on its two architectures."""

from __future__ import annotations

import platform
from dataclasses import dataclass

PYTHON = "3.13"
ABI = "cpython-313"
# Lambda's python3.13 runs on Amazon Linux 2023.
GLIBC = (2, 34)


@dataclass(frozen=True)
class Target:
    """An architecture by Lambda's name for it.

    ``machine`` is the e_machine of its ELF files, ``triple`` what CPython puts
    into the names of its extension modules, ``platform`` uv's name.
    """

    name: str
    machine: int
    triple: str
    platform: str


TARGETS = (
    Target("arm64", 183, "aarch64-linux-gnu", "aarch64-manylinux_2_28"),
    Target("x86_64", 62, "x86_64-linux-gnu", "x86_64-manylinux_2_28"),
)


def find_target(name: str) -> Target | None:
    """The architecture of that name, None for an unknown name."""
    return next((target for target in TARGETS if target.name == name), None)


def host_target() -> Target | None:
    """The architecture of this machine, None when Lambda does not have it."""
    machine = platform.machine().lower()
    return find_target({"aarch64": "arm64", "amd64": "x86_64"}.get(machine, machine))
