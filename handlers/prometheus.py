"""What Prometheus reads off a server: ``GET /metrics``, and how much it is doing: ``GET /load``.

Endpoints are those that there are, other paths are one ("other"): a label never
holds what a client sent. Of several processes each counts in files that the one which
is asked adds up (``prometheus_client.multiprocess``); they must have a folder
before this module is loaded (:func:`counting_together`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response

from core.model import Model
from handlers.audit import RequestFindings
from handlers.metrics import OTHER, work_of
from handlers.responses import json_response
from handlers.routing import Route, Router

PATH = "/metrics"
LOAD = "/load"
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# Seconds: from a chunk of a stream to an answer that takes minutes.
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


@contextmanager
def counting_together(processes: int) -> Iterator[None]:
    """Where several processes serve, a folder for what they count, until the end of the block."""
    if processes == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="derender-metrics-") as folder:
        os.environ[_FOLDER] = folder
        yield


def forget_process(pid: int) -> None:
    """A process that counted has ended: what it was doing is done."""
    if _FOLDER in os.environ:
        from prometheus_client import multiprocess  # late: as below

        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


class Prometheus:
    """The counts of one application; an :class:`~handlers.metrics.Observer`.

    ``engines`` gives the engines of the relay, with whether each is used.
    """

    def __init__(self, engines: Callable[[], dict[str, bool]] | None = None) -> None:
        # Late: it looks for its folder when it is imported.
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = registry = CollectorRegistry()
        self._engines = engines
        self._answers = Counter("derender_requests", "Answers.", ("endpoint", "status"), registry=registry)
        self._seconds = Histogram(
            "derender_request_seconds", "From a request's head to its answer's end.", ("endpoint",),
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self._errors = Counter(
            "derender_errors", "Requests refused (4xx) and faults (5xx), by kind.", ("endpoint", "status", "kind"),
            registry=registry,
        )  # fmt: skip
        self._prompt = Counter(
            "derender_prompt_tokens", "Token ids that text became.", ("endpoint",), registry=registry
        )
        self._completion = Counter(
            "derender_completion_tokens", "Token ids that became text.", ("endpoint",), registry=registry
        )
        self._chunks = Counter("derender_chunks", "Chunks of engines' streams.", ("endpoint",), registry=registry)
        self._audited = Counter(
            "derender_audit_findings", "Answers that lost something, by kind.", ("kind", "parser"), registry=registry
        )
        self._running = Gauge(
            "derender_requests_running", "Requests that are being answered.", registry=registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self._streams = Gauge(
            "derender_streams_running", "Streams that are being sent.", registry=registry, multiprocess_mode="livesum"
        )
        self._usable = Gauge(
            "derender_engine_usable", "1; 0: it failed a moment ago and is the last choice.", ("engine",),
            registry=registry, multiprocess_mode="livemin",
        )  # fmt: skip

    @property
    def running(self) -> int:
        """Requests that this process is answering."""
        return int(self._running._value.get())

    def began(self) -> None:
        """See :class:`~handlers.metrics.Observer`."""
        self._running.inc()

    def ended(self) -> None:
        """See :class:`~handlers.metrics.Observer`."""
        self._running.dec()

    def stream_began(self) -> None:
        """See :class:`~handlers.metrics.Observer`."""
        self._streams.inc()

    def stream_ended(self) -> None:
        """See :class:`~handlers.metrics.Observer`."""
        self._streams.dec()

    def answered(self, request: Request | None, endpoint: str, status: int, seconds: float, kind: str | None) -> None:
        """See :class:`~handlers.metrics.Observer`."""
        self._answers.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)
        if status >= 400:
            self._errors.labels(endpoint, status, kind or OTHER).inc()
        if request is None:
            return
        work = work_of(request)
        for counter, number in (
            (self._prompt, work.prompt_tokens),
            (self._completion, work.completion_tokens),
            (self._chunks, work.chunks),
        ):
            if number:
                counter.labels(endpoint).inc(number)
        findings: RequestFindings | None = getattr(request.state, "findings", None)
        if findings is not None:
            for name, number in findings.kinds.items():
                self._audited.labels(name, findings.parser).inc(number)

    def router(self) -> Router:
        """The routes that tell all this."""

        async def tell(model: Model, body: bytes, request: Request) -> Response:
            # Late: as above.
            from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, multiprocess

            for engine, usable in (self._engines() if self._engines else {}).items():
                self._usable.labels(engine).set(usable)
            registry = self.registry
            if _FOLDER in os.environ:
                registry = CollectorRegistry()
                multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

        async def load(model: Model, body: bytes, request: Request) -> Response:
            return json_response({"server_load": self.running - 1})  # without the request that asks

        return Router(
            routes=(
                Route(PATH, "Metrics", tell, lambda: (), method="GET", has_body=False),
                Route(LOAD, "Load", load, lambda: (), method="GET", has_body=False),
            ),
            encodes=False,
        )
