"""Spans of a server's requests, for OpenTelemetry: the extra ``otel``, and only where an address for them is given.

One span a request, below the client's (W3C Trace Context) and above the engine's own. It says where, how long and with
which status; never what a request or an answer says.
"""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import ConfigurationError
from handlers.metrics import OTHER, work_of_state

TRACE = "trace"
"""Where a request keeps the trace context that its calls belong to: headers for an engine."""
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class Tracing:
    """What starts spans, which go to an OTLP endpoint over HTTP.

    The address is that of the traces as such (``http://collector:4318/v1/traces``). The standard's variables
    (``OTEL_SERVICE_NAME``, ``OTEL_TRACES_SAMPLER``, ``OTEL_EXPORTER_OTLP_HEADERS``, ...) say the rest.

    Raises:
        ConfigurationError: the extra is not installed, or this is no address.
    """

    def __init__(self, endpoint: str) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise ConfigurationError(f"DERENDER_OTLP_TRACES_ENDPOINT must be an http address, not {endpoint!r}")
        if not _is_installed():
            raise ConfigurationError("DERENDER_OTLP_TRACES_ENDPOINT needs the extra otel: pip install 'derender[otel]'")
        self._endpoint = endpoint
        self._provider: Any = None

    @property
    def tracer(self) -> Any:
        """Starts spans. Its thread begins with the first request: a server forks before that."""
        if self._provider is None:
            # Late: an extra, and slow to load.
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "derender"}
            self._provider = TracerProvider(resource=Resource.create(named))
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=self._endpoint)))
        return self._provider.get_tracer("derender")

    async def close(self) -> None:
        """Send the last spans."""
        if self._provider is not None:
            await asyncio.to_thread(self._provider.shutdown)


def _is_installed() -> bool:
    try:
        return all(find_spec(name) for name in _PACKAGES)
    except ModuleNotFoundError:
        return False


class Spans:
    """The middleware. ``endpoints`` are the paths that spans may be named by."""

    def __init__(self, app: ASGIApp, tracing: Tracing, endpoints: frozenset[str]) -> None:
        # Late: as above.
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._app = app
        self._tracing = tracing
        self._endpoints = endpoints
        self._server, self._error = SpanKind.SERVER, StatusCode.ERROR
        self._context = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        endpoint = path if path in self._endpoints else OTHER
        attributes = {"http.request.method": scope["method"], "http.route": endpoint}
        span = self._tracing.tracer.start_span(
            f"{scope['method']} {endpoint}", self._context.extract(given), self._server, attributes
        )
        state = scope.setdefault("state", {})
        trace: dict[str, str] = {}
        state[TRACE] = trace
        # Late: as above.
        from opentelemetry.trace import set_span_in_context

        self._context.inject(trace, set_span_in_context(span))

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                span.set_attribute("http.response.status_code", message["status"])
                if message["status"] >= 500:
                    span.set_status(self._error)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            work = work_of_state(state)
            span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": work.prompt_tokens,
                    "gen_ai.usage.output_tokens": work.completion_tokens,
                }
            )
            span.end()
