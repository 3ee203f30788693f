"""The relay's endpoints: a client's request, the engine's chunks, and core between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from core.choice.output import Report
from core.dialects import DIALECTS
from core.dialects.dialect import Dialect
from core.model import Model
from core.protocol.body import decode_request
from core.protocol.engine import GenerateChunk, GenerateResponse
from core.protocol.json_text import long_json_bytes
from core.relay.answer import AnswerStream, AnswerWriter
from core.relay.errors import UnreadableOutput
from core.relay.passing import Passing
from core.relay.request import RelayRequest
from core.relay.turns import NO_TURNS, Turns
from core.relay.whole import Collected, WholeAnswer, WriteAnswer
from handlers.audit import findings_of
from handlers.auth import CALLER
from handlers.beside import Pieces
from handlers.counting import count_routes
from handlers.engine_client import EngineClient
from handlers.engine_version import check_engines
from handlers.logs import write_fault
from handlers.metrics import Work, count
from handlers.responses import json_response, text_response
from handlers.routing import Elsewhere, Route, Router, Steps, two_steps
from handlers.settings import Settings
from handlers.sse import StreamForm, respond, unless_gone
from handlers.trace_context import trace_headers

Batches = AsyncGenerator[tuple[int, list[GenerateChunk]], None]
_REQUEST_ID = "x-request-id"
# What makes a step of a stream long, whatever the step before took: tokens of a prompt, or of a chunk.
_LONG_PROMPT = 16_384
_LONG_CHUNK = 64
# Parsing a chunk takes some 0.1 ms: other streams get their turn after so many.
_CHUNKS_PER_TURN = 16
# The last step of an answer in one piece takes longer than that; with this many tokens it leaves the event loop.
_LONG_ANSWER = 500
# A request may hold thousands of prompts: so many of them are at the engine at once.
_MAX_CALLS = 32
# Of what is written at once; the prompt's ids may stand in the first event of every choice.
_BLOCK_BYTES = 256 * 1024


class Relay:
    """The relay of one application: its settings, and the engines' client, made when it is first wanted."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engines: EngineClient | None = None
        self._turns = _turns(settings)

    @property
    def engines(self) -> EngineClient:
        if self._engines is None:
            settings = self._settings
            self._engines = EngineClient(
                settings.engine_url, settings.engine_api_key, settings.engine_timeout, settings.engine_model
            )
        return self._engines

    async def close(self) -> None:
        """Close the connections to the engines."""
        if self._engines is not None:
            await self._engines.close()

    def route(self, dialect: Dialect) -> Route:
        """The full endpoint of a dialect."""
        if dialect.usual:
            dialect.relaying()  # loaded with the function, and not by its first request

        def opened(model: Model, body: bytes, request: Request) -> RelayRequest:
            passing = Passing(self._settings.engine_params, request.scope.get("state", {}).get(CALLER))
            given = request.headers.get(_REQUEST_ID)
            turns = replace(self._turns, caller=passing.caller)
            return dialect.relaying().open_request(model, decode_request(body), given, passing, turns)

        async def respond(model: Model, request: RelayRequest, http: Request) -> Response:
            return await self._respond(dialect, request, http)

        # A cache of turns is this process's own.
        steps = Steps(opened, respond, stays=self._turns.cache is not None)
        name = dialect.name.capitalize()
        return Route(dialect.path, name, two_steps(steps), lambda: dialect.rendering().forms(), dialect.errors, steps)

    async def _respond(self, dialect: Dialect, opened: RelayRequest, request: Request) -> Response:
        engines = self.engines.passing(trace_headers(request))
        if opened.stream:
            writer = dialect.relaying().writer(opened)
            form = StreamForm(dialect.named_events, writer.fail)
            blocks = stream_answer(engines, writer, opened, form, request)
            return await respond(request, blocks, self._settings.sse_keep_alive_interval, form)
        response: Response = await unless_gone(request, whole_answer(engines, dialect, opened, request))
        return response


def _turns(settings: Settings) -> Turns:
    policy = None if settings.continue_turns == "off" else settings.continue_turns
    if policy is None:
        return NO_TURNS
    from core.turns.cache import TurnCache  # late: only a deployment that continues turns

    room = settings.turn_cache * 1_000_000
    return Turns(policy, TurnCache(room) if room else None)  # type: ignore[arg-type]  # checked with the settings


def relay_router(settings: Settings) -> Router:
    """The full endpoints of all dialects on the engines that the settings name.

    Raises:
        ConfigurationError: an engine's version is not the slice's, and must be.
    """
    check_engines(settings)
    relay = Relay(settings)
    lookups = (route for dialect in DIALECTS for route in _lookups(dialect))
    return Router(
        routes=(*map(relay.route, DIALECTS), *count_routes(relayed=True), *lookups),
        encodes=True,
        close=relay.close,
        engines=lambda: relay.engines.states(),
        engine_answers=lambda: relay.engines.answers(),
    )


def _lookups(dialect: Dialect) -> Iterator[Route]:
    """The endpoints that ask for an earlier answer, or end one: there is none."""
    missing = dialect.missing
    if missing is None:
        return

    async def endpoint(model: Model, body: bytes, request: Request) -> Response:
        raise missing(request.path_params["id"])

    path = f"{dialect.path}/{{id}}"
    yield Route(path, f"Look up {dialect.name}", endpoint, tuple, dialect.errors, method="GET", has_body=False)
    yield Route(f"{path}/cancel", f"Cancel {dialect.name}", endpoint, tuple, dialect.errors, has_body=False)


async def stream_answer(
    engines: EngineClient, writer: AnswerWriter, request: RelayRequest, form: StreamForm, http: Request
) -> AsyncGenerator[bytes, None]:
    """The events of a streamed answer, those of one batch of the engine's in one block."""
    findings = findings_of(http, request.model, request.findings)
    answer = AnswerStream(request, writer, findings.report)
    pieces = Pieces(answer.advance, long=request.prompt_tokens > _LONG_PROMPT)
    begun, chunks = False, 0
    try:
        async with aclosing(_batches(engines, request)) as batches:
            async for prompt, batch in batches:
                block = _Block()
                # In the first block is the first batch: what is wrong with it has its own status.
                if not begun:
                    begun = True
                    for written in answer.begin():
                        if full := block.add(form.event(written)):
                            yield full
                for chunk in batch:
                    aside = pieces.long or _is_long(chunk)
                    for written in await pieces.beside(prompt, chunk) if aside else pieces.here(prompt, chunk):
                        if full := block.add(form.event(written)):
                            yield full
                    chunks += 1
                    if chunks % _CHUNKS_PER_TURN == 0:
                        await asyncio.sleep(0)
                if rest := block.take():
                    yield rest
                if answer.finished and answer.stopped:
                    break  # the engine does not know that it is over
            # Before the engine is told, which may take a moment.
            yield b"".join(map(form.event, answer.end())) + form.end
    except UnreadableOutput as exc:
        _note_fault(exc, http)
        raise
    finally:
        count(http, Work(prompt_tokens=request.prompt_tokens, completion_tokens=answer.tokens, chunks=chunks))


def _is_long(chunk: GenerateChunk) -> bool:
    return any(choice.token_ids is not None and len(choice.token_ids) > _LONG_CHUNK for choice in chunk.choices)


class _Block:
    """Events that go out at once."""

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._size = 0

    def add(self, event: bytes) -> bytes:
        """Take an event; the block, where it is full, else nothing."""
        self._events.append(event)
        self._size += len(event)
        return self.take() if self._size > _BLOCK_BYTES else b""

    def take(self) -> bytes:
        """The block so far, which begins anew."""
        block = b"".join(self._events)
        self._events, self._size = [], 0
        return block


async def whole_answer(engines: EngineClient, dialect: Dialect, request: RelayRequest, http: Request) -> Response:
    """The response to a request that does not stream."""
    findings = findings_of(http, request.model, request.findings)
    answer = WholeAnswer(request, dialect.relaying().answer, findings.report)
    if request.whole:
        for prompt, response in enumerate(await _gather(engines, request)):
            answer.add_response(prompt, response)
    else:
        async with aclosing(_batches(engines, request)) as batches:
            async for prompt, batch in batches:
                for chunk in batch:
                    answer.add(prompt, chunk)
                if answer.finished and answer.stopped:
                    break
    count(http, Work(prompt_tokens=request.prompt_tokens, completion_tokens=answer.tokens))
    try:
        long = answer.tokens > _LONG_ANSWER
        elsewhere: Elsewhere | None = http.app.state.elsewhere
        stays = request.turn is not None and request.turn.is_cached
        if elsewhere is not None and not stays and (long or request.chat is not None):
            write = partial(_written, answer.collected(), dialect.relaying().answer)
            return text_response(await elsewhere.written(write, request.model, http, large=long))
        return json_response(await asyncio.to_thread(answer.end) if long else answer.end())
    except UnreadableOutput as exc:
        _note_fault(exc, http)
        raise


def _written(collected: Collected, write: WriteAnswer, report: Report) -> bytes:
    """The text of an answer."""
    return long_json_bytes(collected.end(write, report))


def _note_fault(error: UnreadableOutput, http: Request) -> None:
    """The client is told little; where a parser failed is for the log."""
    write_fault(error.__cause__ or error, http.url.path)


async def _gather(engines: EngineClient, request: RelayRequest) -> list[GenerateResponse]:
    """The whole answers to all prompts; the first failure ends the other calls."""
    room = asyncio.Semaphore(_MAX_CALLS)

    async def call(prompt: dict[str, Any]) -> GenerateResponse:
        async with room:
            return await engines.whole(prompt)

    tasks = [asyncio.ensure_future(call(prompt)) for prompt in request.prompts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _batches(engines: EngineClient, request: RelayRequest) -> Batches:
    streams = (engines.stream(prompt) for prompt in request.prompts)
    return _numbered(next(streams)) if len(request.prompts) == 1 else _merged(streams)


async def _numbered(stream: AsyncGenerator[list[GenerateChunk], None]) -> Batches:
    async with aclosing(stream):
        async for batch in stream:
            yield 0, batch


async def _merged(streams: Iterator[AsyncGenerator[list[GenerateChunk], None]]) -> Batches:
    """The batches of several streams as they come, at most one of each ahead; the number is that of the stream."""
    numbered = enumerate(streams)
    running: dict[int, AsyncGenerator[list[GenerateChunk], None]] = {}
    waiting: dict[asyncio.Future[list[GenerateChunk] | None], int] = {}

    def ask(place: int) -> None:
        waiting[asyncio.ensure_future(anext(running[place], None))] = place

    try:
        while True:
            while len(running) < _MAX_CALLS and (following := next(numbered, None)) is not None:
                running[following[0]] = following[1]
                ask(following[0])
            if not waiting:
                return
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                place = waiting.pop(task)
                batch = task.result()
                if batch is None:
                    del running[place]
                    continue
                yield place, batch
                ask(place)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for stream in running.values():
            await stream.aclose()
