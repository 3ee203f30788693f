"""A whole stream: the engine's chunks in, OpenAI chunks out.

One derender stream for each choice, and the engine's usage chunk at the end.
Of several prompts the choices are numbered through and the usages added, as
``/v1/completions`` of a server does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from derender_client._choice import Context, Kind, carries, derender_chunks
from derender_client._effects import Emit, Json, Now, Steps, Together
from derender_client._engine_stream import EngineStream, choice_count
from derender_client._errors import ClientError
from derender_client._gathering import Gathering
from derender_client._roundtrip import Request, render
from derender_client._server import Server

Batches = list[tuple[int, list[Json]]]


def stream(
    renderer: Server, engine: Server, derenderer: Server, kind: Kind, request: Request, gathering: Gathering
) -> Steps[None]:
    """Emit the OpenAI chunks of a request.

    Raises:
        ClientError: any of them. What the engine had sent before is emitted first.
    """
    request = {**request, "stream": True}
    rendered = yield from render(renderer, kind, request)
    generate_requests = [rendered] if kind.one else rendered
    yield from stream_rendered(engine, derenderer, kind, request, generate_requests, gathering)


def stream_rendered(
    engine: Server,
    derenderer: Server,
    kind: Kind,
    request: Request,
    generate_requests: list[Json],
    gathering: Gathering,
    see: Callable[[Json], object] = lambda chunk: None,
) -> Steps[None]:
    """The same for a request that is rendered; ``see`` is shown every chunk of the engine.

    Raises:
        ClientError: as :func:`stream`.
    """
    chunks = EngineStream(engine, generate_requests, ahead=gathering.timed)
    yield from chunks.open()
    yield from _Output(derenderer, kind, request, generate_requests, gathering, see).run(chunks)


def engine_stream(engine: Server, generate_request: Request) -> Steps[None]:
    """Emit the engine's chunks of one GenerateRequest."""
    chunks = EngineStream(engine, [generate_request], ahead=False)
    yield from chunks.open()
    while (read := (yield from chunks.read(None))) is not None:
        yield Emit(read[1])
    yield from chunks.drain()


class _Output:
    """The derender streams of all choices of a request."""

    def __init__(
        self,
        derenderer: Server,
        kind: Kind,
        request: Request,
        generate_requests: list[Json],
        gathering: Gathering,
        see: Callable[[Json], object],
    ) -> None:
        self._derenderer = derenderer
        self._see = see
        self._gathering = gathering
        prompts = [one["token_ids"] for one in generate_requests]
        self._contexts = [Context(kind, request, ids, len(ids)) for ids in prompts]
        # How many choices a prompt has: the numbering of the next prompt's goes on from there.
        self._width = choice_count(generate_requests[0]) if generate_requests else 1
        self._prompts: dict[int, int] = {}  # choice: its prompt
        self._states: dict[int, Json] = {}
        self._last_state: Json | None = None
        self._usages: dict[int, Json] = {}  # prompt: its usage chunk
        self._id: str | None = None

    def run(self, chunks: EngineStream) -> Steps[None]:
        """Take the engine's chunks until they end."""
        while not chunks.ended:
            try:
                yield from self._receive(chunks)
            except ClientError:
                yield from self._derender_rest()
                raise
            yield from self._derender_due()
        yield from self._derender_rest()
        yield from self._finish()
        yield from chunks.drain()

    def _receive(self, chunks: EngineStream) -> Steps[None]:
        """Wait for the next chunk, or until a batch is due."""
        timed = self._gathering.timed
        read = yield from chunks.read(self._gathering.wait((yield Now())) if timed else None)
        while read is not None:
            self._take(*read, (yield Now()))
            if not timed or self._gathering.full:
                return
            # What came in while a call was under way need not wait for a call of its own.
            read = yield from chunks.read(0)

    def _take(self, prompt: int, chunk: Json, now: float) -> None:
        self._see(chunk)
        # All chunks of a response have one id, and the first one decides.
        self._id = self._id or chunk.get("request_id") or f"stream-{uuid.uuid4().hex}"
        chunk = {**chunk, "request_id": self._id}
        if not chunk["choices"]:
            self._usages[prompt] = chunk
        for choice in chunk["choices"]:
            index = choice["index"] + prompt * self._width
            self._prompts[index] = prompt
            # A derender call takes one choice.
            self._gathering.add(index, {**chunk, "choices": [{**choice, "index": index}]}, now)

    def _derender_due(self) -> Steps[None]:
        while batches := self._gathering.due((yield Now())):
            yield from self._derender(batches)

    def _derender_rest(self) -> Steps[None]:
        while batches := self._gathering.rest():
            yield from self._derender(batches)

    def _derender(self, batches: Batches) -> Steps[None]:
        calls = tuple(self._derender_batch(index, batch) for index, batch in batches)
        # Choices know nothing of each other, so their calls need not wait for each other.
        answers: list[list[Json]] = (yield Together(calls)) if len(calls) > 1 else [(yield from calls[0])]
        for chunk in (chunk for answer in answers for chunk in answer):
            yield Emit(chunk)

    def _derender_batch(self, index: int, batch: list[Json]) -> Steps[list[Json]]:
        context = self._contexts[self._prompts[index]]
        answer = yield from derender_chunks(self._derenderer, context, batch, self._states.get(index))
        self._states[index] = self._last_state = answer.stream_state
        return answer.chunks

    def _finish(self) -> Steps[None]:
        """The usage chunk, which belongs to no choice. Events tell the usage themselves, and have ended."""
        if not self._usages or self._contexts[0].kind.events:
            return
        usages = list(self._usages.values())
        context, state = self._contexts[0], self._last_state
        if len(self._contexts) > 1:
            context = replace(context, prompt_tokens=sum(one.prompt_tokens for one in self._contexts))
            state = None
        # Without a choice the state matters only for the request that it may carry.
        answer = yield from derender_chunks(
            self._derenderer, context, [merged(usages)], state if carries(state) else None
        )
        for chunk in answer.chunks:
            yield Emit(chunk)


def merged(usages: list[Json]) -> Json:
    """One usage chunk of those of several prompts. Metrics describe one prompt, and cannot be merged."""
    if len(usages) == 1:
        return usages[0]
    chunk = {name: value for name, value in usages[0].items() if name != "metrics"}
    return {**chunk, "usage": _sum([one.get("usage") for one in usages])}


def _sum(values: list[Any]) -> Any:
    """Numbers added, mappings key by key; None where none has a value."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, dict) for value in known):
        names = dict.fromkeys(name for value in known for name in value)
        return {name: _sum([value.get(name) for value in known]) for name in names}
    return sum(known) if known and all(isinstance(value, int | float) for value in known) else None
