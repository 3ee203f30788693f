"""Waiting for something that another thread or process does: until it is done, not for a time.

The limit is only there so that a test which fails ends. A test must never
pass because the limit was reached, nor fail because a machine is slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
_POLL_SECONDS = 0.01


def wait_for(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether a condition has come true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
