"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import Self, Unpack

import httpx

from derender_client._async_io import AsyncIO
from derender_client._choice import Derendered
from derender_client._effects import Json
from derender_client._roundtrip import Request
from derender_client._session import LIMITS, Options, Session


class AsyncDerenderClient:
    """:class:`DerenderClient` for asyncio: the same methods, to be awaited or iterated with ``async for``.

    The calls of a stream's choices run at the same time, and the engine is
    read while they do. ``http_client`` is an ``httpx.AsyncClient``.
    """

    def __init__(
        self,
        render_url: str,
        engine_url: str | None = None,
        *,
        http_client: httpx.AsyncClient | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._session = Session(render_url, engine_url, **options)
        self._http = http_client or httpx.AsyncClient(limits=LIMITS)
        self._owned = http_client is None
        self._io = AsyncIO(self._http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Not those of an ``http_client`` that was handed in."""
        if self._owned:
            await self._http.aclose()

    async def render_chat(self, request: Request) -> Json:
        """See :meth:`DerenderClient.render_chat`."""
        return await self._io.run(self._session.render_chat(request))

    async def render_completion(self, request: Request) -> list[Json]:
        """See :meth:`DerenderClient.render_completion`."""
        return await self._io.run(self._session.render_completion(request))

    async def render_messages(self, request: Request) -> Json:
        """See :meth:`DerenderClient.render_messages`."""
        return await self._io.run(self._session.render_messages(request))

    async def render_responses(self, request: Request) -> Json:
        """See :meth:`DerenderClient.render_responses`."""
        return await self._io.run(self._session.render_responses(request))

    async def generate(self, generate_request: Request) -> Json:
        """See :meth:`DerenderClient.generate`."""
        return await self._io.run(self._session.generate(generate_request))

    def generate_stream(self, generate_request: Request) -> AsyncGenerator[Json, None]:
        """See :meth:`DerenderClient.generate_stream`."""
        return self._io.iterate(self._session.generate_stream(generate_request))

    async def derender_chat(self, request: Request, generate_request: Request, generate_response: Request) -> Json:
        """See :meth:`DerenderClient.derender_chat`."""
        return await self._io.run(self._session.derender_chat(request, generate_request, generate_response))

    async def derender_completion(
        self, request: Request, generate_requests: Sequence[Request], generate_responses: Sequence[Request]
    ) -> Json:
        """See :meth:`DerenderClient.derender_completion`."""
        return await self._io.run(self._session.derender_completion(request, generate_requests, generate_responses))

    async def derender_messages(self, request: Request, generate_request: Request, generate_response: Request) -> Json:
        """See :meth:`DerenderClient.derender_messages`."""
        return await self._io.run(self._session.derender_messages(request, generate_request, generate_response))

    async def derender_responses(self, request: Request, generate_request: Request, generate_response: Request) -> Json:
        """See :meth:`DerenderClient.derender_responses`."""
        return await self._io.run(self._session.derender_responses(request, generate_request, generate_response))

    async def derender_chat_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """See :meth:`DerenderClient.derender_chat_chunks`."""
        steps = self._session.derender_chat_chunks(request, generate_request, chunks, stream_state)
        return await self._io.run(steps)

    async def derender_completion_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """See :meth:`DerenderClient.derender_completion_chunks`."""
        steps = self._session.derender_completion_chunks(request, generate_request, chunks, stream_state)
        return await self._io.run(steps)

    async def derender_messages_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """See :meth:`DerenderClient.derender_messages_chunks`."""
        steps = self._session.derender_messages_chunks(request, generate_request, chunks, stream_state)
        return await self._io.run(steps)

    async def derender_responses_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """See :meth:`DerenderClient.derender_responses_chunks`."""
        steps = self._session.derender_responses_chunks(request, generate_request, chunks, stream_state)
        return await self._io.run(steps)

    async def chat(self, request: Request) -> Json:
        """See :meth:`DerenderClient.chat`."""
        return await self._io.run(self._session.chat(request))

    async def completion(self, request: Request) -> Json:
        """See :meth:`DerenderClient.completion`."""
        return await self._io.run(self._session.completion(request))

    async def messages(self, request: Request) -> Json:
        """See :meth:`DerenderClient.messages`."""
        return await self._io.run(self._session.messages(request))

    async def responses(self, request: Request) -> Json:
        """See :meth:`DerenderClient.responses`."""
        return await self._io.run(self._session.responses(request))

    def stream_chat(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> AsyncGenerator[Json, None]:
        """See :meth:`DerenderClient.stream_chat`."""
        return self._io.iterate(self._session.stream_chat(request, gather_tokens, gather_ms))

    def stream_completion(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> AsyncGenerator[Json, None]:
        """See :meth:`DerenderClient.stream_completion`."""
        return self._io.iterate(self._session.stream_completion(request, gather_tokens, gather_ms))

    def stream_messages(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> AsyncGenerator[Json, None]:
        """See :meth:`DerenderClient.stream_messages`."""
        return self._io.iterate(self._session.stream_messages(request, gather_tokens, gather_ms))

    def stream_responses(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> AsyncGenerator[Json, None]:
        """See :meth:`DerenderClient.stream_responses`."""
        return self._io.iterate(self._session.stream_responses(request, gather_tokens, gather_ms))
