"""The client's steps in simulated time: nothing waits, and every moment is exact.

Derender and render calls are real calls of a running service, which take as
long as the simulation says. The engine is a list of moments and events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from derender_client._effects import (
    Effect,
    Emit,
    Ended,
    Event,
    Finished,
    Now,
    Open,
    Post,
    Read,
    Reply,
    Sleep,
    Steps,
    Together,
    advance,
)
from derender_client._session import Session

Json = dict[str, Any]


class Simulation:
    """One stream of a client.

    Parameters
    ----------
    service:
        The address of a running service.
    play:
        The engine's events: the second after the opening, and the data.
    call_seconds:
        How long each call of the service takes.

    ``chunks`` are what the client gave out, each with its moment; ``batches``
    how many engine chunks each derender call held.
    """

    def __init__(self, service: str, play: Sequence[tuple[float, str]], call_seconds: float = 0.0) -> None:
        self.chunks: list[tuple[float, Json]] = []
        self.batches: list[int] = []
        self.now = 0.0
        self._service = service
        self._call_seconds = call_seconds
        self._play = list(play)
        self._coming: list[tuple[float, Event | Ended]] = []

    def stream_chat(self, request: Mapping[str, Any], gather_tokens: int, gather_ms: float | None) -> None:
        """Run ``stream_chat`` from its first step to its last."""
        session = Session(self._service, "http://simulated")
        with httpx.Client() as http:
            self._run(session.stream_chat(request, gather_tokens, gather_ms), http)

    def _run(self, steps: Steps[Any], http: httpx.Client) -> Any:
        step = advance(steps, None)
        while not isinstance(step, Finished):
            step = advance(steps, self._carry_out(step, http))
        return step.value

    def _carry_out(self, effect: Effect, http: httpx.Client) -> Any:
        match effect:
            case Now():
                return self.now
            case Sleep(seconds):
                self.now += seconds
            case Emit(value):
                self.chunks.append((self.now, value))
            case Read(timeout):
                return self._read(timeout)
            case Open(source=source):
                self._coming = [(self.now + after, Event(source, data)) for after, data in self._play]
                self._coming.append((self._coming[-1][0], Ended(source)))
                return Reply(200, {}, b"")
            case Together(steps):
                begun, ends = self.now, []
                results = []
                for one in steps:
                    self.now = begun
                    results.append(self._run(one, http))
                    ends.append(self.now)
                self.now = max(ends)
                return results
            case Post():
                self.now += self._call_seconds
                return self._post(effect, http)

    def _read(self, timeout: float | None) -> Event | Ended | None:
        moment, item = self._coming[0]
        if timeout is not None and moment > self.now + timeout:
            self.now += timeout
            return None
        self.now = max(self.now, moment)
        self._coming.pop(0)
        return item

    def _post(self, post: Post, http: httpx.Client) -> Reply:
        request = post.request(http)
        if request.url.path.endswith("/derender"):
            body = httpx.Response(200, content=request.content).json()
            self.batches.append(len(body.get("generate_chunks", [0])))
        response = http.send(request)
        return Reply(response.status_code, response.headers, response.content)
