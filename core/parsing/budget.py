"""How much CPU time vLLM's parsers may take of one call.

Some parsers read all of their text again for every step (JSON arguments), so
that a client who sends thousands of small chunks, or a state to replay, buys
seconds with kilobytes. The time is looked at before every step. A step itself
is vLLM's and cannot be ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from core.errors import BadRequest


class ParserBudget:
    """The CPU time of one call, from now on.

    Parameters
    ----------
    seconds:
        What the call's parsing may take; 0 for any time.
    clock:
        The CPU time of the thread so far, in seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends = clock() + seconds

    def check(self) -> None:
        """Refuse to parse on.

        Raises:
            BadRequest: the time is up; names the setting.
        """
        if self._seconds and self._clock() > self._ends:
            raise BadRequest(
                f"parsing took longer than the parser_budget of {self._seconds:g} seconds of CPU time; "
                f"send fewer chunks, or less output to replay, in one call"
            )
