"""Effects carried out with blocking calls.

One stream without a time limit is read in place, when its next event is asked
for. Otherwise each stream has a thread that reads ahead into a queue: a
blocking read of httpx cannot be given up and taken up again.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import httpx

from derender_client._effects import (
    Effect,
    Emit,
    Ended,
    Event,
    Finished,
    Json,
    Lost,
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
from derender_client._sse import EventDecoder

T = TypeVar("T")
# Events that are read ahead at most; then the engine waits, as it would for any slow reader.
_AHEAD = 1024
_JOIN_SECONDS = 1.0


class SyncIO:
    """Carries out what steps ask for, through ``http``. May be shared by threads."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def run(self, steps: Steps[T]) -> T:
        """The result of steps that emit nothing."""
        step = advance(steps, None)
        while not isinstance(step, Finished):
            step = advance(steps, self._carry_out(step))
        return step.value

    def iterate(self, steps: Steps[None]) -> Generator[Json, None, None]:
        """What steps emit. Closing the iterator closes the streams that they opened."""
        reader = _Reader()
        try:
            step = advance(steps, None)
            while not isinstance(step, Finished):
                result: Any = None
                match step:
                    case Emit(value):
                        yield value
                    case Read(timeout):
                        result = reader.read(timeout)
                    case Open():
                        result = self._open(reader, step)
                    case _:
                        result = self._carry_out(step)
                step = advance(steps, result)
        finally:
            reader.close()

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Post():
                return self._post(effect)
            case Sleep(seconds):
                return time.sleep(seconds)
            case Now():
                return time.monotonic()
            case Together(steps):
                return [self.run(one) for one in steps]
            case _:
                raise TypeError(f"{effect} outside of a stream")

    def _post(self, post: Post) -> Reply | Lost:
        try:
            response = self._http.send(post.request(self._http))
        except httpx.RequestError as exc:
            return Lost(exc)
        return Reply(response.status_code, response.headers, response.content)

    def _open(self, reader: _Reader, effect: Open) -> Reply | Lost:
        try:
            response = self._http.send(effect.post.request(self._http), stream=True)
            if response.status_code == 200:
                reader.add(effect.source, response, effect.ahead)
                return Reply(200, response.headers, b"")
            try:
                return Reply(response.status_code, response.headers, response.read())
            finally:
                response.close()
        except httpx.RequestError as exc:
            return Lost(exc)


class _Reader:
    """The open streams of one iteration. :meth:`close` ends all of them."""

    def __init__(self) -> None:
        self._here: Iterator[Event | Ended] | None = None
        self._queue: queue.Queue[Event | Ended] = queue.Queue(_AHEAD)
        self._closed = threading.Event()
        self._responses: list[httpx.Response] = []
        self._threads: list[threading.Thread] = []

    def add(self, source: int, response: httpx.Response, ahead: bool) -> None:
        """Read a response, which is open as a stream, from here on."""
        self._responses.append(response)
        if not ahead:
            self._here = _events(source, response)
            return
        # A daemon: a thread that waits for a silent engine must not keep the program from ending.
        thread = threading.Thread(target=self._pump, args=(source, response), name="derender-reader", daemon=True)
        self._threads.append(thread)
        thread.start()

    def read(self, timeout: float | None) -> Event | Ended | None:
        """The next event of any stream; None after ``timeout`` seconds, which only reading ahead can tell."""
        if self._here is not None:
            return next(self._here, None)
        try:
            return self._queue.get(timeout != 0, timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End all streams. An engine stops generating when its client goes away."""
        self._closed.set()
        if not self._threads:
            for response in self._responses:
                response.close()
            return
        for response in self._responses:
            if not response.is_closed:
                _interrupt(response)
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    def _pump(self, source: int, response: httpx.Response) -> None:
        try:
            for item in _events(source, response):
                while not self._closed.is_set():
                    try:
                        self._queue.put(item, timeout=0.1)
                        break
                    except queue.Full:
                        continue
                if self._closed.is_set():
                    return
        finally:
            response.close()


def _events(source: int, response: httpx.Response) -> Iterator[Event | Ended]:
    decoder = EventDecoder()
    try:
        for piece in response.iter_bytes():
            for data in decoder.feed(piece):
                yield Event(source, data)
    except Exception as exc:  # whatever it is, the one who reads must hear of it
        yield Ended(source, exc)
        return
    yield Ended(source)


def _interrupt(response: httpx.Response) -> None:
    """Wake the thread that waits for this response. Closing a socket does not, shutting it down does."""
    if response.http_version == "HTTP/2":
        return  # a connection that others share
    stream = response.extensions.get("network_stream")
    raw = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(raw, socket.socket):
        with contextlib.suppress(OSError):  # it has ended by itself
            # Not the method of a TLS socket, which would take the layer away under the reading thread.
            socket.socket.shutdown(raw, socket.SHUT_RDWR)
