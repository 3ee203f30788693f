"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from client._choice import CHAT, COMPLETION, Derendered
from client._effects import Effect, Emit, Json, Lost, Open, Post, Read, Reply, Sleep, Steps, Together
from client._roundtrip import Request, derender, derender_by_hand, generate, render
from client._session import LIMITS, Options, Session
from client._stream import engine_stream
from client._sync_reader import Reader

T = TypeVar("T")


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
        See :class:`client._session.Options`.

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
        answer: Json = self._run(render(self._session.renderer, CHAT, request))
        return answer

    def render_completion(self, request: Request) -> list[Json]:
        """The GenerateRequests of a completion request, one for each prompt."""
        answer: list[Json] = self._run(render(self._session.renderer, COMPLETION, request))
        return answer

    def generate(self, generate_request: Request) -> Json:
        """The engine's GenerateResponse to a request that does not stream."""
        return self._run(generate(self._session.engine, generate_request))

    def generate_stream(self, generate_request: Request) -> Generator[Json, None, None]:
        """The engine's chunks, as they come. Closing the iterator ends the request."""
        return self._iterate(engine_stream(self._session.engine, generate_request))

    def derender_chat(self, request: Request, generate_request: Request, generate_response: Request) -> Json:
        """The chat completion that the engine's answer stands for."""
        steps = derender(self._session.derenderer, CHAT, request, [generate_request], [generate_response])
        return self._run(steps)

    def derender_completion(
        self, request: Request, generate_requests: Sequence[Request], generate_responses: Sequence[Request]
    ) -> Json:
        """The completion that the engine's answers stand for, one for each prompt."""
        steps = derender(self._session.derenderer, COMPLETION, request, generate_requests, generate_responses)
        return self._run(steps)

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
        steps = derender_by_hand(self._session.derenderer, CHAT, request, generate_request, chunks, stream_state)
        return self._run(steps)

    def derender_completion_chunks(
        self,
        request: Request,
        generate_request: Request,
        chunks: Sequence[Json],
        stream_state: Json | None = None,
    ) -> Derendered:
        """The same for a completion."""
        steps = derender_by_hand(self._session.derenderer, COMPLETION, request, generate_request, chunks, stream_state)
        return self._run(steps)

    def chat(self, request: Request) -> Json:
        """The chat completion of a request: render, generate, derender."""
        return self._run(self._session.round_trip(CHAT, request))

    def completion(self, request: Request) -> Json:
        """The completion of a request, which may have several prompts."""
        return self._run(self._session.round_trip(COMPLETION, request))

    def stream_chat(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> Generator[Json, None, None]:
        """The chat completion chunks of a request, as they come; ``stream`` need not be set in it.

        Up to ``gather_tokens`` tokens of a choice go into one derender call,
        fewer when the choice has finished or the first of them has waited for
        ``gather_ms`` (None: it waits for the others, 0: only what came in
        meanwhile goes along). Closing the iterator ends the request.
        """
        return self._iterate(self._session.stream(CHAT, request, gather_tokens, gather_ms))

    def stream_completion(
        self, request: Request, *, gather_tokens: int = 1, gather_ms: float | None = None
    ) -> Generator[Json, None, None]:
        """The completion chunks of a request, which may have several prompts. See :meth:`stream_chat`."""
        return self._iterate(self._session.stream(COMPLETION, request, gather_tokens, gather_ms))

    def _run(self, steps: Steps[T]) -> T:
        result: Any = None
        while True:
            try:
                effect = steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = self._carry_out(effect)

    def _iterate(self, steps: Steps[None]) -> Generator[Json, None, None]:
        reader = Reader()
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
                        result = reader.read(timeout)
                    case Open():
                        result = self._open(reader, effect)
                    case _:
                        result = self._carry_out(effect)
        finally:
            reader.close()

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Post():
                return self._post(effect)
            case Sleep(seconds):
                return time.sleep(seconds)
            case Together(steps):
                return [self._run(one) for one in steps]
            case _:
                raise TypeError(f"{effect} outside of a stream")

    def _post(self, post: Post) -> Reply | Lost:
        try:
            response = self._http.send(self._request(post))
        except httpx.RequestError as exc:
            return Lost(exc)
        return Reply(response.status_code, response.headers, response.content)

    def _open(self, reader: Reader, effect: Open) -> Reply | Lost:
        try:
            response = self._http.send(self._request(effect.post), stream=True)
            if response.status_code == 200:
                reader.add(effect.source, response, effect.ahead)
                return Reply(200, response.headers, b"")
            try:
                return Reply(response.status_code, response.headers, response.read())
            finally:
                response.close()
        except httpx.RequestError as exc:
            return Lost(exc)

    def _request(self, post: Post) -> httpx.Request:
        headers: Mapping[str, str] = post.headers
        return self._http.build_request("POST", post.url, headers=headers, content=post.content, timeout=post.timeout)
