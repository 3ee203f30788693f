"""The engine's streams of one request: opened, read as JSON, and opened again while nothing has arrived.

It must never open a stream again once it gave an event out: the engine would
sample other tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derender_client._effects import Ended, Event, Json, Lost, Open, Read, Reply, Sleep, Steps
from derender_client._errors import ConnectionFailed, StreamFailed, UnexpectedAnswer
from derender_client._roundtrip import GENERATE_PATH
from derender_client._server import Server, answered, decode, encode, failed, lost

_DONE = "[DONE]"


def choice_count(generate_request: Mapping[str, Any]) -> int:
    """How many choices a GenerateRequest asks for."""
    count = (generate_request.get("sampling_params") or {}).get("n")
    return count if isinstance(count, int) else 1


class _Source:
    """One stream: how often it was opened again, and what it has given."""

    def __init__(self, generate_request: Mapping[str, Any]) -> None:
        self.content = encode({**generate_request, "stream": True})
        self.choices = choice_count(generate_request)
        self.retries = 0
        self.begun = False
        self.done = False
        self.finished: set[int] = set()


class EngineStream:
    """The streams of some GenerateRequests, one for each prompt, read as one.

    ``ahead``: see :class:`derender_client._effects.Open`.
    """

    def __init__(self, engine: Server, generate_requests: Sequence[Mapping[str, Any]], ahead: bool) -> None:
        self._engine = engine
        self._url = engine.url + GENERATE_PATH
        self._ahead = ahead or len(generate_requests) > 1
        self._sources = [_Source(request) for request in generate_requests]
        self._open = len(self._sources)

    @property
    def ended(self) -> bool:
        """Whether every stream has given all that it has."""
        return all(source.done for source in self._sources)

    def open(self) -> Steps[None]:
        """Send the requests.

        Raises:
            ConnectionFailed, RequestFailed
        """
        for number in range(len(self._sources)):
            yield from self._open_source(number)

    def _open_source(self, number: int) -> Steps[None]:
        source = self._sources[number]
        post = self._engine.post(GENERATE_PATH, source.content)
        while True:
            outcome: Reply | Lost = yield Open(number, post, self._ahead)
            if isinstance(outcome, Reply) and outcome.status == 200:
                return
            wait = self._engine.retry.wait(source.retries, outcome, pure=False)
            if wait is None:
                raise failed(self._url, answered(self._url, outcome))
            yield Sleep(wait)
            source.retries += 1

    def read(self, timeout: float | None) -> Steps[tuple[int, Json] | None]:
        """(source, chunk), or None when the time is up or everything has ended.

        Raises:
            StreamFailed: the engine sent an error.
            ConnectionFailed: a stream broke off.
            UnexpectedAnswer: an event is not a chunk.
        """
        while not self.ended:
            item: Event | Ended | None = yield Read(timeout)
            if item is None:
                return None
            source = self._sources[item.source]
            if isinstance(item, Ended):
                self._open -= 1
                yield from self._end(item, source)
            elif item.data == _DONE:
                source.done = True
            elif not source.done:
                return item.source, self._chunk(item.data, source)
        return None

    def drain(self) -> Steps[None]:
        """Read what comes after the end, which is nothing: only then can the connection be used again."""
        while self._open:
            item: Event | Ended | None = yield Read(None)
            self._open -= isinstance(item, Ended)

    def _end(self, item: Ended, source: _Source) -> Steps[None]:
        if item.error is None and len(source.finished) >= source.choices:
            source.done = True  # An engine that sends no [DONE].
        if source.done:
            return
        outcome = Lost(item.error) if item.error is not None else None
        if not source.begun and outcome is not None:
            wait = self._engine.retry.wait(source.retries, outcome, pure=False)
            if wait is not None:
                yield Sleep(wait)
                source.retries += 1
                yield from self._open_source(item.source)
                self._open += 1
                return
        if item.error is None:
            raise ConnectionFailed(f"{self._url}: the stream ended in the middle")
        raise lost(self._url, item.error) from item.error

    def _chunk(self, data: str, source: _Source) -> Json:
        chunk = decode(data, f"{self._url} sent")
        if isinstance(chunk, dict) and chunk.get("error"):
            raise StreamFailed(chunk)
        choices = chunk.get("choices") if isinstance(chunk, dict) else None
        if not isinstance(choices, list) or not all(_is_choice(choice) for choice in choices):
            raise UnexpectedAnswer(f"{self._url} sent an event that is not a chunk: {data[:80]!r}")
        source.begun = True
        source.finished.update(choice["index"] for choice in choices if choice.get("finish_reason") is not None)
        return dict(chunk)


def _is_choice(value: Any) -> bool:
    return isinstance(value, dict) and type(value.get("index")) is int
