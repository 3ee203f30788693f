"""What both clients are made of: the servers, and the steps of each of their methods. It must never do I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import httpx

from derender_client._choice import CHAT, COMPLETION, MESSAGES, RESPONSES, Derendered, Kind
from derender_client._effects import Json, Steps
from derender_client._gathering import gathering_of
from derender_client._retry import Retry
from derender_client._roundtrip import Request, derender, derender_by_hand, generate, render, round_trip
from derender_client._server import Server
from derender_client._stream import engine_stream, stream

# Every stream of an engine holds a connection while its derender calls need another: a limit would be a deadlock.
# uvicorn closes a connection that was idle for 5 s; to be first spares a call that fails.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=4.0)


class Options(TypedDict, total=False):
    """Keyword arguments of both clients.

    derender_url:
        Where derender is, when it is not where render is.
    headers, engine_headers:
        Sent with each request to render and derender, and to the engine. Never
        to the other: they hold keys.
    timeout, engine_timeout:
        Seconds without any byte of an answer (default 60, and 600 for the
        engine), or an ``httpx.Timeout``.
    max_retries, backoff:
        How often a failed call is repeated (default 2), and the longest first
        wait in seconds (default 0.2).
    compress:
        Send larger bodies as gzip to render and derender, where they read it.
    """

    derender_url: str | None
    headers: Mapping[str, str] | None
    engine_headers: Mapping[str, str] | None
    timeout: float | httpx.Timeout
    engine_timeout: float | httpx.Timeout
    max_retries: int
    backoff: float
    compress: bool


class Session:
    """The servers of a client. Apart from ``engine``, a method gives the steps of the client's method of that name."""

    def __init__(
        self,
        render_url: str,
        engine_url: str | None,
        *,
        derender_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        engine_headers: Mapping[str, str] | None = None,
        timeout: float | httpx.Timeout = 60.0,
        engine_timeout: float | httpx.Timeout = 600.0,
        max_retries: int = 2,
        backoff: float = 0.2,
        compress: bool = False,
    ) -> None:
        if max_retries < 0 or not backoff >= 0:
            raise ValueError("max_retries and backoff must not be negative")
        retry = Retry(max_retries, backoff)
        gpu_less = (dict(headers or {}), _timeout(timeout), retry, compress)
        self.renderer = Server(_base_url(render_url), *gpu_less)
        # One server that does both is asked once what it understands.
        same = derender_url is None or _base_url(derender_url) == self.renderer.url
        self.derenderer = self.renderer if same else Server(_base_url(derender_url or ""), *gpu_less)
        self._engine: Server | None = None
        if engine_url is not None:
            self._engine = Server(_base_url(engine_url), dict(engine_headers or {}), _timeout(engine_timeout), retry)

    @property
    def engine(self) -> Server:
        if self._engine is None:
            raise ValueError("this client was made without an engine_url")
        return self._engine

    def render_chat(self, request: Request) -> Steps[Json]:
        return render(self.renderer, CHAT, request)

    def render_completion(self, request: Request) -> Steps[list[Json]]:
        return render(self.renderer, COMPLETION, request)

    def render_messages(self, request: Request) -> Steps[Json]:
        return render(self.renderer, MESSAGES, request)

    def render_responses(self, request: Request) -> Steps[Json]:
        return render(self.renderer, RESPONSES, request)

    def generate(self, generate_request: Request) -> Steps[Json]:
        return generate(self.engine, generate_request)

    def generate_stream(self, generate_request: Request) -> Steps[None]:
        return engine_stream(self.engine, generate_request)

    def derender_chat(self, request: Request, generate_request: Request, generate_response: Request) -> Steps[Json]:
        return derender(self.derenderer, CHAT, request, [generate_request], [generate_response])

    def derender_completion(
        self, request: Request, generate_requests: Sequence[Request], generate_responses: Sequence[Request]
    ) -> Steps[Json]:
        return derender(self.derenderer, COMPLETION, request, generate_requests, generate_responses)

    def derender_messages(self, request: Request, generate_request: Request, generate_response: Request) -> Steps[Json]:
        return derender(self.derenderer, MESSAGES, request, [generate_request], [generate_response])

    def derender_responses(
        self, request: Request, generate_request: Request, generate_response: Request
    ) -> Steps[Json]:
        return derender(self.derenderer, RESPONSES, request, [generate_request], [generate_response])

    def derender_chat_chunks(
        self, request: Request, generate_request: Request, chunks: Sequence[Json], stream_state: Json | None
    ) -> Steps[Derendered]:
        return derender_by_hand(self.derenderer, CHAT, request, generate_request, chunks, stream_state)

    def derender_completion_chunks(
        self, request: Request, generate_request: Request, chunks: Sequence[Json], stream_state: Json | None
    ) -> Steps[Derendered]:
        return derender_by_hand(self.derenderer, COMPLETION, request, generate_request, chunks, stream_state)

    def derender_messages_chunks(
        self, request: Request, generate_request: Request, chunks: Sequence[Json], stream_state: Json | None
    ) -> Steps[Derendered]:
        return derender_by_hand(self.derenderer, MESSAGES, request, generate_request, chunks, stream_state)

    def derender_responses_chunks(
        self, request: Request, generate_request: Request, chunks: Sequence[Json], stream_state: Json | None
    ) -> Steps[Derendered]:
        return derender_by_hand(self.derenderer, RESPONSES, request, generate_request, chunks, stream_state)

    def chat(self, request: Request) -> Steps[Json]:
        return round_trip(self.renderer, self.engine, self.derenderer, CHAT, request)

    def completion(self, request: Request) -> Steps[Json]:
        return round_trip(self.renderer, self.engine, self.derenderer, COMPLETION, request)

    def messages(self, request: Request) -> Steps[Json]:
        return round_trip(self.renderer, self.engine, self.derenderer, MESSAGES, request)

    def responses(self, request: Request) -> Steps[Json]:
        return round_trip(self.renderer, self.engine, self.derenderer, RESPONSES, request)

    def stream_chat(self, request: Request, gather_tokens: int, gather_ms: float | None) -> Steps[None]:
        return self._stream(CHAT, request, gather_tokens, gather_ms)

    def stream_completion(self, request: Request, gather_tokens: int, gather_ms: float | None) -> Steps[None]:
        return self._stream(COMPLETION, request, gather_tokens, gather_ms)

    def stream_messages(self, request: Request, gather_tokens: int, gather_ms: float | None) -> Steps[None]:
        return self._stream(MESSAGES, request, gather_tokens, gather_ms)

    def stream_responses(self, request: Request, gather_tokens: int, gather_ms: float | None) -> Steps[None]:
        return self._stream(RESPONSES, request, gather_tokens, gather_ms)

    def _stream(self, kind: Kind, request: Request, gather_tokens: int, gather_ms: float | None) -> Steps[None]:
        gathering = gathering_of(gather_tokens, gather_ms)
        return stream(self.renderer, self.engine, self.derenderer, kind, request, gathering)


def _base_url(url: str) -> str:
    parsed = httpx.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"not an http or https address: {url!r}")
    return url.rstrip("/")


def _timeout(value: float | httpx.Timeout) -> httpx.Timeout:
    # A server that is there answers a connection at once, however long it then works.
    return value if isinstance(value, httpx.Timeout) else httpx.Timeout(value, connect=min(value, 10.0))
