"""What is counted of a request, and how CloudWatch reads it off the request's line in the log.

The line is in CloudWatch's embedded metric format, so the metrics cost no
second line and no call. This is done by hand because requests are short: a
chunk of a stream takes a millisecond, of which Powertools' logger and metrics,
with two lines, would take an eighth (``docs/operations.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.requests import Request

NAMESPACE = "derender"
OTHER = "other"
"""The endpoint of a request that reached none, and the kind of an error that has no other."""
_UNITS = {
    "duration_ms": "Milliseconds",
    "prompt_tokens": "Count",
    "completion_tokens": "Count",
    "chunks": "Count",
    "refused": "Count",
    "faults": "Count",
}
_DIRECTIVE = {
    "Namespace": NAMESPACE,
    "Dimensions": [["function"]],  # each metric costs by dimension; endpoints are told apart by the log's own query
    "Metrics": [{"Name": name, "Unit": unit} for name, unit in _UNITS.items()],
}


@dataclass(frozen=True, eq=False, repr=False)
class Work:
    """What one request came down to.

    ``prompt_tokens`` are the token ids that text was encoded to,
    ``completion_tokens`` those that were decoded to text, ``chunks`` those of
    a stream.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    chunks: int = 0


_NOTHING = Work()


def count(request: Request, work: Work) -> None:
    """Note what a request is, for its metrics."""
    request.state.work = work


def work_of(request: Request) -> Work:
    """What was noted of a request."""
    return work_of_state(request.scope.get("state", {}))


def work_of_state(state: Mapping[str, Any]) -> Work:
    """What was noted of a request, by the state of its scope."""
    work: Work = state.get("work", _NOTHING)
    return work


def measured(request: Request, status: int, seconds: float) -> dict[str, Any]:
    """The metrics of a request that took ``seconds``, by name."""
    work = work_of(request)
    return {
        "duration_ms": round(seconds * 1000, 3),
        "prompt_tokens": work.prompt_tokens,
        "completion_tokens": work.completion_tokens,
        "chunks": work.chunks,
        "refused": int(400 <= status < 500),
        "faults": int(status >= 500),
    }


def embedded(seconds: float) -> dict[str, Any]:
    """What tells CloudWatch which fields of a line are metrics; ``seconds`` is the line's time, since the epoch."""
    return {"Timestamp": int(seconds * 1000), "CloudWatchMetrics": [_DIRECTIVE]}


class Observer(Protocol):
    """Counts what a server does. Every method returns at once and raises nothing."""

    def began(self) -> None:
        """A request is there."""

    def ended(self) -> None:
        """It is answered, or its client has left."""

    def stream_began(self) -> None:
        """Its answer is a stream, which begins."""

    def stream_ended(self) -> None:
        """The stream is over."""

    def answered(self, request: Request | None, endpoint: str, status: int, seconds: float, kind: str | None) -> None:
        """An answer is over, ``seconds`` after its request came; ``kind`` is that of an error.

        Without a ``request`` no route answered.
        """
