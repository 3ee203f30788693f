"""Timing: many short rounds, alternating between the things compared, and the best of each.

The minimum of many rounds is what the code costs; everything above it is the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_of(
    calls: Mapping[str, Callable[[], object]],
    rounds: int = 40,
    seconds: float = 0.02,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds per call of each by a clock, the best of ``rounds`` rounds of about ``seconds`` each."""
    counts = {name: _calls_in(call, seconds) for name, call in calls.items()}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            began = clock()
            for _ in range(counts[name]):
                call()
            best[name] = min(best[name], (clock() - began) / counts[name])
    return best


def _calls_in(call: Callable[[], object], seconds: float) -> int:
    call()
    began = time.perf_counter()
    call()
    return max(1, int(seconds / max(time.perf_counter() - began, 1e-9)))
