"""How much of its clients a server holds at once: bytes of bodies, and connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from core.errors import Overloaded


class Room:
    """The room of one server: ``most_bytes`` of bodies, ``most_connections`` of connections.

    ``connections`` says how many there are; a server sets it.
    """

    def __init__(self, most_bytes: int, most_connections: int) -> None:
        self._most_bytes = most_bytes
        self._most_connections = most_connections
        self.held = 0
        """Bytes of bodies that are there, whole or in part."""
        self.connections: Callable[[], int] = lambda: 0

    @contextmanager
    def taken(self) -> Iterator[Callable[[int], None]]:
        """The room of one request until the end of the block; it is told of every part of the body, in bytes.

        A body that is alone may be of any size.

        Raises:
            Overloaded: there is none, now or for the next part.
        """
        if self.connections() > self._most_connections:
            raise Overloaded("the server has as many connections as it may, its max_connections; try again")
        mine = 0

        def took(size: int) -> None:
            nonlocal mine
            mine += size
            self.held += size
            if self.held > self._most_bytes and self.held > mine:
                raise Overloaded("the server holds as much of request bodies as its max_bytes_in_flight; try again")

        try:
            yield took
        finally:
            self.held -= mine
