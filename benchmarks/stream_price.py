"""What does a stream of 1,000 tokens cost on Lambda, beside a small server?

The answer is made of measured times and published prices.
The times are this machine's; Lambda bills whole milliseconds of a function of
1,769 MB, which is one CPU. Prices are those of us-east-1, on demand, without
the free tier, as published in 2026; they are the constants below.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.function_call import TOKENS, stream_costs

MEMORY_GB = 1769 / 1024
LAMBDA_GB_SECOND = 0.0000133334  # arm64, first tier
LAMBDA_REQUEST = 0.20 / 1e6
HTTP_API_REQUEST = 1.00 / 1e6  # for each 512 KB begun
LOG_GB = 0.50
# A request's line and its access log line, as CloudWatch counts them: with 26 bytes each.
LOG_BYTES = 850 + 420 + 2 * 26
HOURS = 730
# Two Fargate tasks (arm64) of 1 vCPU and 2 GB behind a load balancer: the least that survives a failure.
# The relay is there for as long as the engine writes: 1,000 tokens at 50 a second.
RELAY_SECONDS = TOKENS / 50
RELAY_LOG_BYTES = 850 + 26
SERVER_MONTH = 2 * (0.03238 + 2 * 0.00356) * HOURS + 0.0225 * HOURS


def run() -> list[dict[str, Any]]:
    """One row for each number of tokens a call, and one for the relay."""
    rows = []
    for size, (took, moved) in stream_costs().items():
        calls = len(took)
        billed = sum(math.ceil(ms) for ms in took)
        requests = calls * (LAMBDA_REQUEST + HTTP_API_REQUEST * math.ceil(moved / calls / 2 / 524_288))
        size_name = "all" if size >= TOKENS else str(size)
        rows.append(_row(size_name, calls, sum(took), billed, requests, calls * LOG_BYTES))
    # A Function URL adds no cost.
    relayed = RELAY_SECONDS * 1000
    rows.append(_row("relay", 1, relayed, math.ceil(relayed), LAMBDA_REQUEST, RELAY_LOG_BYTES))
    return rows


def most_a_month(concurrency: int, memory_mb: int) -> float:
    """Dollars that a Function URL can cost in a month of 30 days, when strangers call it all the time.

    All of its environments run all the time. Each takes at most ten requests a second, which is Lambda's own limit
    for one, and what Lambda throttles costs nothing.
    """
    seconds = 30 * 86_400 * concurrency
    compute = seconds * memory_mb / 1024 * LAMBDA_GB_SECOND
    return compute + 10 * seconds * (LAMBDA_REQUEST + RELAY_LOG_BYTES / 1e9 * LOG_GB)


def _row(tokens: str, calls: int, ms: float, billed: int, requests: float, log_bytes: int) -> dict[str, Any]:
    """Dollars are those of 1,000 such streams; "even" is how many streams a month pay for the server."""
    compute, logs = billed / 1000 * MEMORY_GB * LAMBDA_GB_SECOND, log_bytes / 1e9 * LOG_GB
    total = compute + requests + logs
    return {
        "tokens": tokens,
        "calls": calls,
        "ms": ms,
        "billed": billed,
        "compute": compute * 1000,
        "requests": requests * 1000,
        "logs": logs * 1000,
        "total": total * 1000,
        "even": int(SERVER_MONTH / total),
    }
