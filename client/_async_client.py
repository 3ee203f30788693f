"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from client._async_reader import AsyncReader
from client._choice import CHAT, COMPLETION, Derendered
from client._effects import Effect, Emit, Json, Lost, Open, Post, Read, Reply, Sleep, Steps, Together
from client._roundtrip import Request, derender, derender_by_hand, generate, render
from client._session import LIMITS, Options, Session
from client._stream import engine_stream

T = TypeVar("T")


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
        answer: Json = await self._run(render(self._session.renderer, CHAT, request))
        return answer

    async def render_completion(self, request: Request) -> list[Json]:
        """See :meth:`DerenderClient.render_completion`."""
        answer: list[Json] = await self._run(render(self._session.renderer, COMPLETION, request))
        return answer

    async def generate(self, generate_request: Request) -> Json:
        """See :meth:`DerenderClient.generate`."""
        return await self._run(generate(self._session.engine, generate_request))

    def generate_stream(self, generate_request: Request) -> AsyncGenerator[Json, None]:
        """See :meth:`DerenderClient.generate_stream`."""
        return self._iterate(engine_stream(self._session.engine, generate_request))

    async def derender_chat(self, request: Request, generate_request: Request, generate_response: Request) -> Json:
        """See :meth:`DerenderClient.derender_chat`."""
        steps = derender(self._session.derenderer, CHAT, request, [generate_request], [generate_response])
        return await self._run(steps)

    async def derender_completion(
        self, request: Request, generate_requests: Sequence[Request], generate_responses: Sequence[Request]
    ) -> Json:
        """See :meth:`DerenderClient.derender_completion`."""
        steps = derender(self._session.derenderer, COMPLETION, request, generate_requests, generate_responses)
        return await self._run(steps)

    async def derender_chat_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """See :meth:`DerenderClient.derender_chat_chunks`."""
        steps = derender_by_hand(self._session.derenderer, CHAT, request, generate_request, chunks, stream_state)
        return await self._run(steps)

    async def derender_completion_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """See :meth:`DerenderClient.derender_completion_chunks`."""
        steps = derender_by_hand(self._session.derenderer, COMPLETION, request, generate_request, chunks, stream_state)
        return await self._run(steps)

    async def chat(self, request: Request) -> Json:
        """See :meth:`DerenderClient.chat`."""
        return await self._run(self._session.round_trip(CHAT, request))

    async def completion(self, request: Request) -> Json:
        """See :meth:`DerenderClient.completion`."""
        return await self._run(self._session.round_trip(COMPLETION, request))

    def stream_chat(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> AsyncGenerator[Json, None]:
        """See :meth:`DerenderClient.stream_chat`."""
        return self._iterate(self._session.stream(CHAT, request, gather_tokens, gather_ms))

    def stream_completion(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> AsyncGenerator[Json, None]:
        """See :meth:`DerenderClient.stream_completion`."""
        return self._iterate(self._session.stream(COMPLETION, request, gather_tokens, gather_ms))

    async def _run(self, steps: Steps[T]) -> T:
        result: Any = None
        while True:
            try:
                effect = steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = await self._carry_out(effect)

    async def _iterate(self, steps: Steps[None]) -> AsyncGenerator[Json, None]:
        reader = AsyncReader()
        result: Any = None
        try:
            while True:
                try:
                    effect = steps.send(result)
                except StopIteration:
                    return
                result = None
                match effect:
                    case Emit(value):
                        yield value
                    case Read(timeout):
                        result = await reader.read(timeout)
                    case Open():
                        result = await self._open(reader, effect)
                    case _:
                        result = await self._carry_out(effect)
        finally:
            await reader.close()

    async def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Post():
                return await self._post(effect)
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case Together(steps):
                return await self._together(steps)
            case _:
                raise TypeError(f"{effect} outside of a stream")

    async def _together(self, steps: Sequence[Steps[Any]]) -> list[Any]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run(one)) for one in steps]
        except ExceptionGroup as exc:
            raise exc.exceptions[0] from exc.exceptions[0].__cause__
        return [task.result() for task in tasks]

    async def _post(self, post: Post) -> Reply | Lost:
        try:
            response = await self._http.send(self._request(post))
        except httpx.RequestError as exc:
            return Lost(exc)
        return Reply(response.status_code, response.headers, response.content)

    async def _open(self, reader: AsyncReader, effect: Open) -> Reply | Lost:
        try:
            response = await self._http.send(self._request(effect.post), stream=True)
            if response.status_code == 200:
                reader.add(effect.source, response)
                return Reply(200, response.headers, b"")
            try:
                return Reply(response.status_code, response.headers, await response.aread())
            finally:
                await response.aclose()
        except httpx.RequestError as exc:
            return Lost(exc)

    def _request(self, post: Post) -> httpx.Request:
        headers: Mapping[str, str] = post.headers
        return self._http.build_request("POST", post.url, headers=headers, content=post.content, timeout=post.timeout)
