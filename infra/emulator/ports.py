"""Ports of the loopback interface on which nothing listens."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of the loopback interface on which nothing listens."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different such ports."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
