"""Reading open streams for the sync client.

One stream without a time limit is read in place, when its next event is asked
for. Otherwise each stream has a thread that reads ahead into a queue: a
blocking read of httpx cannot be given up and taken up again.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator

import httpx

from client._effects import Ended, Event
from client._sse import EventDecoder

# Events that are read ahead at most; then the engine waits, as it would for any slow reader.
_AHEAD = 1024
_JOIN_SECONDS = 1.0


class Reader:
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
        """End all streams. An engine stops to generate when its client goes away."""
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
