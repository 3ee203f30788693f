"""When a failed call is repeated, and after how long.

Render and derender are functions of what is sent: repeating a call gives the
same answer, so any failure on the way may be repeated. An engine does costly
work for each request: it is asked again only where it cannot still be at work
on the first one, and never once tokens have arrived (``_engine_stream``).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx

from derender_client._effects import Lost, Reply

# A server that asks for a longer wait than this is not waited for.
MAX_RETRY_AFTER = 60.0
_MAX_DELAY = 8.0
_BUSY = {429, 502, 503, 504}
_TRANSIENT = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError, httpx.ProxyError)


@dataclass(frozen=True)
class Retry:
    """At most ``max_retries`` repetitions; the first waits up to ``backoff`` seconds, each later one up to twice that.

    The wait is drawn evenly from zero to its limit, so that callers that
    failed together do not come back together. A ``Retry-After`` is honoured.
    """

    max_retries: int
    backoff: float

    def wait(self, attempt: int, outcome: Reply | Lost, pure: bool) -> float | None:
        """Seconds until the call is repeated; None: it is not.

        Parameters
        ----------
        attempt:
            How many times the call was repeated so far.
        pure:
            Whether the call only computes an answer from what was sent.
        """
        if attempt >= self.max_retries or not _may_repeat(outcome, pure):
            return None
        drawn = random.uniform(0, min(self.backoff * 2.0**attempt, _MAX_DELAY))
        asked = retry_after(outcome.headers) if isinstance(outcome, Reply) else None
        if asked is None:
            return drawn
        return None if asked > MAX_RETRY_AFTER else asked + drawn


def _may_repeat(outcome: Reply | Lost, pure: bool) -> bool:
    if isinstance(outcome, Lost):
        # After a read timeout an engine is most likely still generating.
        return isinstance(outcome.error, _TRANSIENT) and (pure or not isinstance(outcome.error, httpx.ReadTimeout))
    # A gateway's 504 says the same.
    return outcome.status in _BUSY and (pure or outcome.status != 504)


def retry_after(headers: Mapping[str, str], clock: Callable[[], float] = time.time) -> float | None:
    """Seconds of a ``Retry-After`` header, which may also hold a date; None without one that can be read."""
    value = headers.get("retry-after", "").strip()
    if value.replace(".", "", 1).isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - clock())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
