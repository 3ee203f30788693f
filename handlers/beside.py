"""Work beside the event loop in this very process, for what cannot leave it: a running stream, a cache of turns.

One thread does it, a piece at a time, so that the loop shares Python's lock
with one other, which gives it up after 5 ms whatever it does in Python.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Generic, ParamSpec, TypeVar

# CPU seconds that a piece of work may take on the loop; the next pieces of one that took longer are done beside it.
LONG = 0.003

Given = ParamSpec("Given")
Result = TypeVar("Result")


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "beside")


async def beside(work: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """What ``work`` returns, done in the thread beside the loop.

    Raises:
        Exception: what it raises.
    """
    return await asyncio.get_running_loop().run_in_executor(_thread(), lambda: work(*arguments, **named))


class Pieces(Generic[Given, Result]):
    """A work that is done in pieces: those after a ``long`` one belong beside the loop.

    Parameters
    ----------
    work:
        Does one piece.
    long:
        Whether the first piece is expected to be long.
    clock:
        The CPU time of the thread so far, in seconds.
    """

    def __init__(
        self, work: Callable[Given, Result], *, long: bool = False, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._work = work
        self._clock = clock
        self.long = long

    async def beside(self, *arguments: Given.args, **named: Given.kwargs) -> Result:
        """What the next piece gives, done beside the loop.

        Raises:
            Exception: what it raises.
        """
        return await beside(self.here, *arguments, **named)

    def here(self, *arguments: Given.args, **named: Given.kwargs) -> Result:
        """What the next piece gives, done in this thread; afterwards ``long`` says whether it took long.

        Raises:
            Exception: what it raises.
        """
        began = self._clock()
        try:
            return self._work(*arguments, **named)
        finally:
            self.long = self._clock() - began > LONG
