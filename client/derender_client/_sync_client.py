"""The blocking client."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Self, Unpack

import httpx

from derender_client._choice import Derendered
from derender_client._effects import Json
from derender_client._roundtrip import Request
from derender_client._session import LIMITS, Options, Session
from derender_client._sync_io import SyncIO


class DerenderClient:
    """Render, generate, derender: one call at a time, the whole round trip, or as a stream.

    Parameters
    ----------
    render_url, engine_url:
        Base addresses of the render and derender server, and of the engine.
        Without an engine only what needs none can be called.
    http_client:
        An ``httpx.Client`` to send with, for proxies, certificates or signed
        requests. It stays open when this client closes. Its pool must have room
        for two connections a stream.
    options:
        See :class:`derender_client._session.Options`.

    Requests and responses are the JSON objects of the wire, as dicts. Every
    method raises :class:`ClientError` where a server does not do its part.
    May be shared by threads.
    """

    def __init__(
        self,
        render_url: str,
        engine_url: str | None = None,
        *,
        http_client: httpx.Client | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._session = Session(render_url, engine_url, **options)
        self._http = http_client or httpx.Client(limits=LIMITS)
        self._owned = http_client is None
        self._io = SyncIO(self._http)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Not those of an ``http_client`` that was handed in."""
        if self._owned:
            self._http.close()

    def render_chat(self, request: Request) -> Json:
        """The GenerateRequest of a chat request."""
        return self._io.run(self._session.render_chat(request))

    def render_completion(self, request: Request) -> list[Json]:
        """The GenerateRequests of a completion request, one for each prompt."""
        return self._io.run(self._session.render_completion(request))

    def render_messages(self, request: Request) -> Json:
        """The GenerateRequest of a Messages request."""
        return self._io.run(self._session.render_messages(request))

    def render_responses(self, request: Request) -> Json:
        """The GenerateRequest of a Responses request."""
        return self._io.run(self._session.render_responses(request))

    def generate(self, generate_request: Request) -> Json:
        """The engine's GenerateResponse to a request that does not stream."""
        return self._io.run(self._session.generate(generate_request))

    def generate_stream(self, generate_request: Request) -> Generator[Json, None, None]:
        """The engine's chunks, as they come. Closing the iterator ends the request."""
        return self._io.iterate(self._session.generate_stream(generate_request))

    def derender_chat(self, request: Request, generate_request: Request, generate_response: Request) -> Json:
        """The chat completion that the engine's answer stands for."""
        return self._io.run(self._session.derender_chat(request, generate_request, generate_response))

    def derender_completion(
        self, request: Request, generate_requests: Sequence[Request], generate_responses: Sequence[Request]
    ) -> Json:
        """The completion that the engine's answers stand for, one for each prompt."""
        return self._io.run(self._session.derender_completion(request, generate_requests, generate_responses))

    def derender_messages(self, request: Request, generate_request: Request, generate_response: Request) -> Json:
        """The message that the engine's answer stands for."""
        return self._io.run(self._session.derender_messages(request, generate_request, generate_response))

    def derender_responses(self, request: Request, generate_request: Request, generate_response: Request) -> Json:
        """The response that the engine's answer stands for."""
        return self._io.run(self._session.derender_responses(request, generate_request, generate_response))

    def derender_chat_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """Chunks of one choice of a chat, and its state. For those who gather themselves.

        ``stream_state`` is that of the last call for the same choice, None for
        the first. The server tells how many calls are made.
        """
        steps = self._session.derender_chat_chunks(request, generate_request, chunks, stream_state)
        return self._io.run(steps)

    def derender_completion_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """The same for a completion."""
        steps = self._session.derender_completion_chunks(request, generate_request, chunks, stream_state)
        return self._io.run(steps)

    def derender_messages_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """The same for a message: its events."""
        steps = self._session.derender_messages_chunks(request, generate_request, chunks, stream_state)
        return self._io.run(steps)

    def derender_responses_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """The same for a response: its events."""
        steps = self._session.derender_responses_chunks(request, generate_request, chunks, stream_state)
        return self._io.run(steps)

    def chat(self, request: Request) -> Json:
        """The chat completion of a request: render, generate, derender."""
        return self._io.run(self._session.chat(request))

    def completion(self, request: Request) -> Json:
        """The completion of a request, which may have several prompts."""
        return self._io.run(self._session.completion(request))

    def messages(self, request: Request) -> Json:
        """The message that answers a Messages request."""
        return self._io.run(self._session.messages(request))

    def responses(self, request: Request) -> Json:
        """The response that answers a Responses request."""
        return self._io.run(self._session.responses(request))

    def stream_chat(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> Generator[Json, None, None]:
        """The chat completion chunks of a request, as they come; ``stream`` need not be set in it.

        Up to ``gather_tokens`` tokens of a choice go into one derender call,
        fewer when the choice has finished or the first of them has waited for
        ``gather_ms`` (None: it waits for the others, 0: only what came in
        meanwhile goes along). Closing the iterator ends the request.
        """
        return self._io.iterate(self._session.stream_chat(request, gather_tokens, gather_ms))

    def stream_completion(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> Generator[Json, None, None]:
        """The completion chunks of a request, which may have several prompts. See :meth:`stream_chat`."""
        return self._io.iterate(self._session.stream_completion(request, gather_tokens, gather_ms))

    def stream_messages(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> Generator[Json, None, None]:
        """The events that answer a Messages request, as they come. See :meth:`stream_chat`."""
        return self._io.iterate(self._session.stream_messages(request, gather_tokens, gather_ms))

    def stream_responses(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> Generator[Json, None, None]:
        """The events that answer a Responses request, as they come. See :meth:`stream_chat`."""
        return self._io.iterate(self._session.stream_responses(request, gather_tokens, gather_ms))
