"""The log: one JSON object a line on standard output, which is CloudWatch's and anybody's.

A request's line counts and measures (``handlers/metrics.py``); it never holds a
prompt, an output, a state or the wording of an error, which may repeat them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import PurePath
from types import TracebackType
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from handlers.log_output import write_out
from handlers.metrics import embedded, measured

_MAX_ID = 128
_MAX_CONTEXT = 8192
_MAX_FRAMES = 12


def write_line(level: str, message: str, **fields: Any) -> None:
    """One line of the log."""
    line = {"level": level, "message": message, "timestamp": _timestamp(time.time()), **fields}
    write_out(orjson.dumps(line, default=str).decode() + "\n")


def write_fault(error: BaseException, endpoint: str) -> None:
    """The line of a fault of ours: where it happened and of which kind. Its message may hold what a client sent."""
    kind, frames = type(error).__name__, frames_of(error.__traceback__)
    if isinstance(error, ReportedFault):
        kind, frames = error.kind, error.frames
    write_line("ERROR", "fault", endpoint=endpoint, exception=kind, frames=frames)


class ReportedFault(Exception):
    """A fault in another process: its ``kind`` and ``frames`` are those of what was raised there."""

    def __init__(self, kind: str, frames: list[str]) -> None:
        super().__init__(kind)
        self.kind = kind
        self.frames = frames


class RequestLog:
    """Writes the requests' lines. ``only_errors`` leaves out what was answered with less than 400."""

    def __init__(
        self,
        function: str,
        only_errors: bool = False,
        write: Callable[[str], object] | None = None,
        for_cloudwatch: bool = True,
    ) -> None:
        self.function = function
        self._only_errors = only_errors
        self._write = write or write_out
        self._for_cloudwatch = for_cloudwatch
        self._is_cold = True
        self.muted = False
        """While the function answers to itself."""

    def request(self, request: Request, endpoint: str, response: Response, seconds: float) -> None:
        """The line of one request that took ``seconds``."""
        if self.muted:
            return
        cold, self._is_cold = self._is_cold, False
        status = response.status_code
        if self._only_errors and status < 400:
            return
        now = time.time()
        line = {
            "level": "INFO" if status < 500 else "ERROR",
            "message": "request",
            "timestamp": _timestamp(now),
            **request_ids(request),
            "function": self.function,
            "endpoint": endpoint,
            "status": status,
            "cold_start": cold,
            "answer_bytes": len(response.body),
            **measured(request, status, seconds),
        }
        if self._for_cloudwatch:
            line["_aws"] = embedded(now)
        self._write(orjson.dumps(line).decode() + "\n")


def _timestamp(seconds: float) -> str:
    """RFC 3339: Lambda reads the level only of lines with such a time."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds * 1000) % 1000:03d}Z"


def request_ids(request: Request) -> dict[str, str]:
    """The ids by which a request is found again: Lambda's, the gateway's, the client's."""
    context, event = request.scope.get("aws.context"), request.scope.get("aws.event") or {}
    found = {
        "request_id": getattr(context, "aws_request_id", None) or _adapter_id(request, "lambda", "request_id"),
        "gateway_request_id": (event.get("requestContext") or {}).get("requestId")
        or _adapter_id(request, "request", "requestId"),
        "client_request_id": request.headers.get("x-request-id"),
    }
    own = request.scope.get("state", {}).get("request_id")
    if own is not None:
        # A server's (``handlers.traffic``): the client's own where it has one.
        found = {"request_id": own}
    return {name: str(value)[:_MAX_ID] for name, value in found.items() if value}


def _adapter_id(request: Request, kind: str, name: str) -> Any:
    """An id out of what the Lambda Web Adapter says of an invocation, in headers: good for a log, and for no more."""
    text = request.headers.get(f"x-amzn-{kind}-context")
    if text is None or len(text) > _MAX_CONTEXT:
        return None
    try:
        context = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return context.get(name) if isinstance(context, dict) else None


def frames_of(trace: TracebackType | None) -> list[str]:
    """The innermost frames of a traceback, as text: file, line, function."""
    frames: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{'/'.join(PurePath(code.co_filename).parts[-3:])}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames[-_MAX_FRAMES:]
