"""The HTTP side of a token engine: vLLM's ``/inference/v1/generate`` and ``/inference/v1/abort_requests``.

One client lives as long as the process, so that warm invocations find open
connections. Answers are read as they are wanted: what a slow client does not
take is not fetched. A call that ends before the engine has is aborted there.
What the client sends and how it is answered is not this module's business; nor
may an engine's address get into what it raises.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from copy import copy
from typing import Any

import httpx

from core.errors import RequestError
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.protocol.json_text import json_bytes, long_json_bytes
from core.relay.engine_events import EventReader, read_chunk, read_error, read_response
from core.relay.errors import EngineError, EngineFailed, EngineTimeout, EngineUnavailable
from handlers.free_time import Pulse, Silence
from handlers.logs import write_line

GENERATE = "/inference/v1/generate"
ABORT = "/inference/v1/abort_requests"
HEALTH = "/health"
# Engines name their requests so (vLLM); a request that has not answered yet is aborted by this guess.
_ENGINE_PREFIX = "generate-tokens-"
_CONNECT_SECONDS = 5.0
_ABORT_SECONDS = 2.0
_HEALTH_SECONDS = 2.0
# An engine that could not be used is the last choice for this long.
_SET_ASIDE_SECONDS = 10.0
_MAX_ERROR_BYTES = 64 * 1024
_MAX_ANSWER_BYTES = 256 * 1024 * 1024
_MAX_CONNECTIONS = 1000
_KEPT_CONNECTIONS = 100
# vLLM closes idle connections after 5 s by default: what is closed first here is never found closed there.
_KEPT_SECONDS = 4.0


Aborts = set[asyncio.Future[None]]


class EngineClient:
    """Calls the engines of one deployment: the first that begins to answer is used.

    ``timeout`` is how many seconds an engine may be silent: before its first
    token, and between two chunks. ``model`` is the name that the engines serve
    the model by, None for the one in a request.
    """

    def __init__(self, urls: Sequence[str], api_key: str | None, timeout: float, model: str | None = None) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._model = model
        self._timeout = timeout
        self._pulse = Pulse()
        self._set_aside: dict[str, float] = {}
        self._passed: Mapping[str, str] = {}
        headers = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "derender"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        verify = _certificates() if any(url.startswith("https:") for url in urls) else False

        def client(kept: int) -> httpx.AsyncClient:
            return httpx.AsyncClient(
                headers=headers,
                # Silence is measured by event and connecting by free time, not by the clock: see _Call.
                timeout=None,
                limits=httpx.Limits(
                    max_connections=_MAX_CONNECTIONS, max_keepalive_connections=kept, keepalive_expiry=_KEPT_SECONDS
                ),
                # A proxy or a .netrc of the environment is not meant for the engine.
                trust_env=False,
                follow_redirects=False,
                verify=verify,
            )

        # The second keeps no connection: what it sends goes over a new one.
        self._http, self._fresh = client(_KEPT_CONNECTIONS), client(0)

    def passing(self, headers: Mapping[str, str]) -> EngineClient:
        """The same client, whose calls have these headers as well."""
        if not headers:
            return self
        client = copy(self)
        client._passed = headers
        return client

    def states(self) -> dict[str, bool]:
        """The engines by host and port; whether each is used as usual, and not as the last choice."""
        now = time.monotonic()
        return {_named(url): self._set_aside.get(url, 0.0) <= now for url in self._urls}

    async def answers(self) -> bool:
        """Whether any engine says that it is well."""

        async def is_well(url: str) -> bool:
            try:
                async with asyncio.timeout(_HEALTH_SECONDS):
                    return (await self._http.get(url + HEALTH)).status_code == 200
            except (TimeoutError, httpx.HTTPError):
                return False

        return any(await asyncio.gather(*map(is_well, self._urls)))

    async def close(self) -> None:
        """Close what is open."""
        await self._http.aclose()
        await self._fresh.aclose()

    def _call(self, url: str, request: dict[str, Any], aborts: Aborts) -> _Call:
        named = request if self._model is None else {**request, "model": self._model}
        return _Call((self._http, self._fresh), url, named, self._timeout, self._pulse, aborts, self._passed)

    async def stream(self, request: dict[str, Any]) -> AsyncGenerator[list[GenerateChunk], None]:
        """The chunks of one streamed answer, in batches as the network brings them.

        Close the generator (``aclosing``) to end the call early.

        Raises:
            RequestError: the engine refused, failed or fell silent; before its
                first chunk only when no other engine could do better.
        """
        failure: RequestError = EngineUnavailable("no engine is configured")
        aborts: Aborts = set()
        with self._pulse:
            try:
                for url in self._candidates():
                    begun = False
                    try:
                        async with aclosing(self._call(url, request, aborts).chunks()) as batches:
                            async for batch in batches:
                                begun = True
                                yield batch
                        return
                    except EngineError as exc:
                        if begun:
                            raise
                        failure = _telling(failure, exc)
                        self._note_failure(url, exc)
                raise failure
            finally:
                await _settled(aborts)

    async def whole(self, request: dict[str, Any]) -> GenerateResponse:
        """One answer in one piece.

        Raises:
            RequestError: as :meth:`stream`.
        """
        failure: RequestError = EngineUnavailable("no engine is configured")
        aborts: Aborts = set()
        with self._pulse:
            try:
                for url in self._candidates():
                    try:
                        return await self._call(url, request, aborts).response()
                    except EngineError as exc:
                        failure = _telling(failure, exc)
                        self._note_failure(url, exc)
                raise failure
            finally:
                await _settled(aborts)

    def _candidates(self) -> Iterator[str]:
        """The engines to try: in the order given, those set aside last."""
        now = time.monotonic()
        yield from sorted(self._urls, key=lambda url: self._set_aside.get(url, 0.0) > now)

    def _note_failure(self, url: str, error: EngineError) -> None:
        cause = type(error.__cause__).__name__ if error.__cause__ else None
        write_line("WARNING", "engine set aside", engine=_named(url), reason=error.message, cause=cause)
        self._set_aside[url] = time.monotonic() + _SET_ASIDE_SECONDS


def _named(url: str) -> str:
    """An engine for operators: without what an address may hold of names and passwords."""
    parts = httpx.URL(url)
    return f"{parts.host}:{parts.port or parts.scheme}"


class _Call:
    """One request to one engine. What it leaves unfinished there is ended by a task of ``aborts``."""

    def __init__(
        self,
        clients: tuple[httpx.AsyncClient, httpx.AsyncClient],
        url: str,
        request: dict[str, Any],
        timeout: float,
        pulse: Pulse,
        aborts: Aborts,
        passed: Mapping[str, str],
    ) -> None:
        self._passed = passed
        self._aborts = aborts
        self._pulse = pulse
        self._http, _ = self._clients = clients
        self._url = url
        self._body = long_json_bytes(request)
        self._timeout = timeout
        # By either name an engine may know it.
        self._ids = [_ENGINE_PREFIX + request["request_id"], request["request_id"]]
        self._complete = False
        self._choices: int = request["sampling_params"].get("n", 1)
        self._ended: set[int] = set()

    async def chunks(self) -> AsyncGenerator[list[GenerateChunk], None]:
        response: httpx.Response | None = None
        silence = Silence(self._pulse, self._timeout)
        try:
            response = await self._open(silence)
            reader = EventReader()
            async with aclosing(_blocks(response)) as blocks:
                while True:
                    events = await self._next_events(blocks, reader, silence)
                    if events is None:
                        self._complete = True
                        return
                    batch, done = self._read(events)
                    if batch:
                        yield batch
                    if done:
                        # Read to the end, so that the connection can be used again.
                        with suppress(EngineError):
                            await self._next_events(blocks, reader, Silence(self._pulse, _ABORT_SECONDS))
                        self._complete = True
                        return
                    # The clock stands while nobody asks for more.
                    silence.broken()
        finally:
            await self._end(response)

    async def response(self) -> GenerateResponse:
        response: httpx.Response | None = None
        try:
            silence = Silence(self._pulse, self._timeout)
            response = await self._open(silence)
            async with silence:
                body = await _read_all(response, _MAX_ANSWER_BYTES)
            self._complete = True
            return read_response(body)
        except TimeoutError:
            raise self._silent() from None
        except httpx.HTTPError as exc:
            raise EngineFailed("the engine's answer broke off") from exc
        finally:
            await self._end(response)

    async def _open(self, silence: Silence) -> httpx.Response:
        """Send the request; the answer once its status is known to be 200."""
        try:
            async with silence:
                response = await self._send()
                if response.status_code == 200:
                    return response
                try:
                    body = await _read_all(response, _MAX_ERROR_BYTES)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise self._silent() from None
        except httpx.HTTPError as exc:
            self._complete = True  # it never began
            raise EngineUnavailable("the engine cannot be reached") from exc
        self._complete = True
        raise read_error(response.status_code, body, response.headers.get("retry-after"))

    async def _send(self) -> httpx.Response:
        """The answer's head. A kept connection may be found closed: then it is tried once more on a new one.

        On another kept one it would not do: engines close those of a burst at one time.
        """
        for http in self._clients:
            connecting = Silence(self._pulse, _CONNECT_SECONDS)

            async def trace(event: str, _: Any, connecting: Silence = connecting) -> None:
                if event.endswith("send_request_headers.started"):
                    connecting.over()

            request = http.build_request(
                "POST", self._url + GENERATE, content=self._body, headers=self._passed, extensions={"trace": trace}
            )
            try:
                async with connecting:
                    return await http.send(request, stream=True)
            except TimeoutError:
                raise httpx.ConnectTimeout("", request=request) from None
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if http is not self._http:
                    raise
        raise AssertionError("unreachable")

    async def _next_events(
        self, blocks: AsyncIterator[bytes], reader: EventReader, silence: Silence
    ) -> list[bytes] | None:
        """The events of the next blocks that complete any. Comments do not count as a sign of life.

        None at the end of a stream that said that all its choices are complete, and forgot to say that it is.
        """
        try:
            async with silence:
                async for block in blocks:
                    events = reader.feed(block)
                    if events:
                        return events
        except TimeoutError:
            raise self._silent() from None
        except httpx.HTTPError as exc:
            raise EngineFailed("the engine's stream broke off") from exc
        events = reader.end()
        if events:
            return events
        self._complete = True
        if len(self._ended) >= self._choices:
            return None
        raise EngineFailed("the engine's stream ended too early")

    def _read(self, events: Sequence[bytes]) -> tuple[list[GenerateChunk], bool]:
        """The chunks of some events, and whether the stream is complete."""
        batch: list[GenerateChunk] = []
        for data in events:
            chunk = read_chunk(data)
            if chunk is None:
                return batch, True
            if chunk.request_id and chunk.request_id not in self._ids:
                self._ids = [chunk.request_id]
            self._ended.update(choice.index for choice in chunk.choices if choice.finish_reason is not None)
            batch.append(chunk)
        return batch, False

    def _silent(self) -> EngineTimeout:
        return EngineTimeout(f"the engine sent nothing for {self._timeout:g} seconds")

    async def _end(self, response: httpx.Response | None) -> None:
        """Leave the engine alone: what is not complete is closed and aborted there."""
        if self._complete:
            if response is not None:
                await response.aclose()
            return
        # The next engine need not wait for this one.
        self._aborts.add(asyncio.ensure_future(self._abandon(response)))

    async def _abandon(self, response: httpx.Response | None) -> None:
        with suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(_ABORT_SECONDS):
                if response is not None:
                    await response.aclose()
                await self._http.post(self._url + ABORT, content=json_bytes({"request_ids": self._ids}))


def _telling(before: RequestError, now: EngineError) -> RequestError:
    """The failure that the client is told of: rather that of an engine that is there than that of one that is gone."""
    gone = isinstance(now, EngineUnavailable) and not isinstance(before, EngineUnavailable)
    return before if gone else now


async def _settled(aborts: Aborts) -> None:
    """Wait until the engines were told: after the answer a function is frozen.

    They are told even where this wait is cut short.
    """
    if aborts:
        await asyncio.shield(asyncio.wait(aborts))


async def _blocks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    async for block in response.aiter_raw():
        yield block


async def _read_all(response: httpx.Response, limit: int) -> bytes:
    """The body of an answer.

    Raises:
        EngineFailed: it is longer than ``limit`` bytes.
    """
    parts, size = [], 0
    async for block in response.aiter_raw():
        size += len(block)
        if size > limit:
            raise EngineFailed("the engine's answer is too long")
        parts.append(block)
    return b"".join(parts)


def _certificates() -> ssl.SSLContext:
    """The system's certificates (``SSL_CERT_FILE`` counts) and those that come with httpx."""
    import certifi  # late: only a relay whose engine is behind https

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
