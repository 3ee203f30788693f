"""A proxy on loopback that records what passes, and goes wrong as planned.

Real HTTP on both sides: what is dropped is a socket, and a stream passes
piece by piece.
"""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """Answer in the server's place."""

    status: int
    body: bytes = b'{"error": {"message": "planned", "type": "Planned", "param": null, "code": 1}}'
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """Close the connection: before the server hears of the request, after it answered, or ``kept`` bytes of body on."""

    after_server: bool = False
    kept: int | None = None


Fault = Answer | Drop | None
Rewrite = Callable[[str, Any], "Answer | Any"]


@dataclass(frozen=True)
class Call:
    """A request that came in. ``size`` is that of the body on the wire, ``body`` the JSON in it."""

    path: str
    headers: Mapping[str, str]
    size: int
    body: Any


class QuietServer(ThreadingHTTPServer):
    """A threaded server that says nothing of clients that go away: here they do so on purpose."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Proxy:
    """Passes everything on to ``target``, apart from the planned ``faults``, one for each request of ``fault_path``.

    ``rewrite_request`` may answer in the server's place; both see (path, JSON).
    """

    def __init__(
        self,
        target: str,
        rewrite_request: Rewrite | None = None,
        rewrite_answer: Callable[[str, Any], Any] | None = None,
    ) -> None:
        address = urlsplit(target)
        self.target = (address.hostname or "", address.port or 80)
        self.rewrite_request = rewrite_request
        self.rewrite_answer = rewrite_answer
        self.calls: list[Call] = []
        self.faults: deque[Fault] = deque()
        self.fault_path = ""
        self.url = ""
        self.before_answer: Callable[[Call], object] = lambda call: None  # may wait
        self._lock = threading.Lock()

    def plan(self, path: str, *faults: Fault) -> None:
        """What happens to the next requests whose path ends so; None: nothing."""
        self.fault_path = path
        self.faults = deque(faults)

    def next_fault(self, path: str) -> Fault:
        with self._lock:
            return self.faults.popleft() if self.faults and path.endswith(self.fault_path) else None

    def count(self, ending: str) -> int:
        """How many requests came in for paths that end so."""
        return sum(call.path.endswith(ending) for call in self.calls)

    def bodies(self, ending: str) -> list[Any]:
        return [call.body for call in self.calls if call.path.endswith(ending)]


@contextmanager
def proxy(target: str, **options: Any) -> Iterator[Proxy]:
    """A running proxy."""
    state = Proxy(target, **options)

    class Handler(_Handler):
        proxy = state

    server = QuietServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small writes would wait for each other's acknowledgement.
    disable_nagle_algorithm = True
    proxy: Proxy
    upstream: http.client.HTTPConnection | None = None

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        plain = gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw
        body = json.loads(plain)
        proxy = self.proxy
        call = Call(self.path, {k.lower(): v for k, v in self.headers.items()}, len(raw), body)
        proxy.calls.append(call)
        fault = proxy.next_fault(self.path)
        proxy.before_answer(call)
        if isinstance(fault, Drop) and not fault.after_server and fault.kept is None:
            return self._drop()
        if proxy.rewrite_request is not None and fault is None:
            changed = proxy.rewrite_request(self.path, call)
            if isinstance(changed, Answer):
                fault = changed
            else:
                raw = json.dumps(changed).encode()
        if isinstance(fault, Answer):
            return self._answer(fault.status, fault.headers, fault.body)
        return self._pass_on(raw, fault)

    def _pass_on(self, raw: bytes, fault: Drop | None) -> None:
        if self.upstream is None:
            self.upstream = http.client.HTTPConnection(*self.proxy.target, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "content-length")}
        try:
            self.upstream.request("POST", self.path, raw, headers)
            response = self.upstream.getresponse()
        except (OSError, http.client.HTTPException):
            # The server closed an idle connection.
            self.upstream.close()
            self.upstream.request("POST", self.path, raw, headers)
            response = self.upstream.getresponse()
        if response.headers.get_content_type() == "text/event-stream":
            return self._stream(response, fault)
        body = response.read()
        if fault is not None:
            if fault.kept is not None:
                self._head(response.status, {"content-length": str(len(body))})
                self.wfile.write(body[: fault.kept])
            return self._drop()
        if self.proxy.rewrite_answer is not None and response.status == 200:
            body = json.dumps(self.proxy.rewrite_answer(self.path, json.loads(body))).encode()
        return self._answer(response.status, {}, body)

    def _stream(self, response: http.client.HTTPResponse, fault: Drop | None) -> None:
        self._head(response.status, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        sent = 0
        try:
            while piece := response.read1(65536):
                if fault is not None and sent + len(piece) > (fault.kept or 0):
                    piece = piece[: (fault.kept or 0) - sent]
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"")
                    return self._drop()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                sent += len(piece)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self._drop()
        finally:
            if not response.isclosed() and self.upstream is not None:
                self.upstream.close()
                self.upstream = None

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._head(status, {"content-type": "application/json", **headers, "content-length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _drop(self) -> None:
        self.close_connection = True
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
