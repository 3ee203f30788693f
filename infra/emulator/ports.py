"""Ports of the loopback interface on which nothing listens."""

from __future__ import annotations

import random
import socket

# Below those that systems give to outgoing connections (Linux from 32,768, others from 49,152): such a port may be
# taken by any client between the moment in which it is found and that in which a server binds it.
_PORTS = range(20_000, 32_000)
_random = random.SystemRandom()


def free_port() -> int:
    """A port of the loopback interface on which nothing listens."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different such ports.

    Raises:
        OSError: there are not so many.
    """
    probes: list[socket.socket] = []
    try:
        for port in _random.sample(_PORTS, len(_PORTS)):
            if len(probes) == count:
                break
            probe = socket.socket()
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                probe.close()
                continue
            probes.append(probe)
        if len(probes) < count:
            raise OSError(f"there are no {count} free ports")
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
