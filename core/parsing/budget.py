"""How much vLLM's parsers may take of one call: CPU time, and where only short work is wanted, text.

Some parsers read all of their text again for every step (JSON arguments), so
that a client who sends thousands of small chunks, or a state to replay, buys
seconds with kilobytes. The time is looked at before every step. A step itself
is vLLM's and cannot be ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from core.errors import BadRequest, LongWork
from core.options import SHORT_BYTES

# CPU time of a call that is to be short.
_SHORT_SECONDS = 0.02


class ParserBudget:
    """The CPU time of one call, from now on.

    Parameters
    ----------
    seconds:
        What the call's parsing may take; 0 for any time.
    clock:
        The CPU time of the thread so far, in seconds.
    short:
        Whether only short work is wanted: a small part of a second, over little text.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time, *, short: bool = False) -> None:
        self._seconds = min(seconds or _SHORT_SECONDS, _SHORT_SECONDS) if short else seconds
        self._short = short
        self._clock = clock
        self._ends = clock() + self._seconds
        self._replays: float | None = None

    @contextmanager
    def replay(self, seconds: float) -> Iterator[None]:
        """What is done within is the replay of a state that nobody signed: it may take ``seconds``, 0 for no less."""
        ends = self._ends
        until = self._clock() + seconds
        if seconds and not self._short and (not self._seconds or until < ends):
            self._ends, self._replays = until, seconds
        try:
            yield
        finally:
            self._ends, self._replays = ends, None

    def admit(self, size: int | None) -> None:
        """Look at the text that a step will read: ``size`` bytes, None for a whole output at once.

        Raises:
            LongWork: only short work is wanted, and this is none. A whole output never is: some parsers
                read it by regular expressions that go back and forth.
        """
        if self._short and (size is None or size > SHORT_BYTES):
            raise LongWork

    def was_long(self) -> bool:
        """Whether only short work was wanted, and what was done was none."""
        return self._short and self._clock() > self._ends

    def check(self) -> None:
        """Refuse to parse on.

        Raises:
            BadRequest: the time is up; names the setting.
            LongWork: the time of short work is up.
        """
        if (self._seconds or self._replays) and self._clock() > self._ends:
            if self._short:
                raise LongWork
            if self._replays:
                raise BadRequest(
                    f"the replay of a stream_state that this deployment did not sign took longer than the "
                    f"replay_budget of {self._replays:g} seconds of CPU time; sign states (state_key), carry "
                    f"checkpoints (stream_state), or raise replay_budget",
                    "stream_state.output_token_ids",
                )
            raise BadRequest(
                f"parsing took longer than the parser_budget of {self._seconds:g} seconds of CPU time; "
                f"send fewer chunks, or less output to replay, in one call"
            )
