"""An engine that plays a prepared stream: events, pauses, errors and broken connections, over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.client.proxy import QuietServer
from tests.support.waiting import PATIENCE

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Gate:
    """Say nothing until the event is set. One that never is ends the connection, when the client should long have left."""

    opened: threading.Event


@dataclass(frozen=True)
class Endless:
    """The same event again and again, until the client has left."""

    event: bytes


@dataclass(frozen=True)
class Break:
    """Close the connection in the middle of the answer."""


Step = bytes | Pause | Gate | Endless | Break


def chunk(token_ids: list[int], finish_reason: str | None = None, index: int = 0, **fields: Any) -> bytes:
    """An event with one choice."""
    choice = {"index": index, "token_ids": token_ids, "finish_reason": finish_reason}
    return event({"request_id": "staged", "choices": [choice], **fields})


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


class Stage:
    """What the next requests are answered with, the last one for all that follow."""

    def __init__(self) -> None:
        self.plays: list[Sequence[Step]] = []
        self.requests = 0
        self.url = ""
        self.left = threading.Event()
        self.said_all = threading.Event()

    def play(self, *plays: Sequence[Step]) -> None:
        self.plays = list(plays)
        self.requests = 0
        self.left.clear()
        self.said_all.clear()


@contextmanager
def staged_engine() -> Iterator[Stage]:
    """A running engine.

    ``left`` is set once a client has gone away before the end, ``said_all``
    once everything is on its way to the client.
    """
    stage = Stage()

    class Handler(_Handler):
        pass

    Handler.stage = stage
    server = QuietServer(("127.0.0.1", 0), Handler)
    stage.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield stage
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stage: Stage

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        number = min(self.stage.requests, len(self.stage.plays) - 1)
        self.stage.requests += 1
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for step in self.stage.plays[number]:
                match step:
                    case Pause(seconds):
                        time.sleep(seconds)
                    case Gate(opened):
                        if not opened.wait(PATIENCE):
                            self.close_connection = True
                            return
                    case Endless(repeated):
                        while True:
                            self._say(repeated)
                            time.sleep(0.02)
                    case Break():
                        self.close_connection = True
                        return
                    case bytes():
                        self._say(step)
            self.wfile.write(b"0\r\n\r\n")
            self.stage.said_all.set()
        except OSError:
            self.close_connection = True
            self.stage.left.set()

    def _say(self, said: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(said), said))
