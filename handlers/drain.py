"""The end of a server: what runs may finish for a while, then it is ended, each with an answer that says so.

The first signal stops new connections and begins the while; the second ends at
once. What still runs after the while gets an error event or a 503, and its
engine requests are stopped. A Lambda function never drains.
"""

from __future__ import annotations

import asyncio


class Drain:
    """Whether what runs must end now."""

    def __init__(self) -> None:
        self._over = asyncio.Event()

    def end(self) -> None:
        """Everything that waits for it ends."""
        self._over.set()

    async def wait(self) -> None:
        """Returns when what runs must end."""
        await self._over.wait()
