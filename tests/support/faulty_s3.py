"""A real S3 server on loopback (moto's), behind a proxy that breaks connections the way networks and S3 do.

The proxy passes everything on; ``faults`` names, by the end of an object's
key, what happens to the next answers for it.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.support.waiting import PATIENCE

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}
_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'


@dataclass
class Fault:
    """What happens to answers for one object, ``times`` times.

    ``status`` and ``code`` answer in S3's place; ``cut`` ends the connection
    after so many bytes, ``flip`` alters the byte there, ``silent`` never
    answers, ``trickle`` waits after each byte (seconds), ``drop`` ends the
    connection without an answer.
    """

    status: int = 0
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    flip: int | None = None
    silent: bool = False
    trickle: float = 0
    drop: bool = False
    times: int = 1_000_000


@dataclass
class FaultyS3:
    """The server: where it is, what it was asked for, and what it does wrong."""

    url: str
    faults: dict[str, Fault] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    """Set at the end: silent answers need not wait any longer."""

    def client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            region_name="us-east-1",
        )

    def objects(self, bucket: str, prefix: str) -> dict[str, bytes]:
        """All objects below a prefix."""
        client = self.client()
        keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])]
        return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def take(self, path: str) -> Fault | None:
        """The fault of the next answer for ``path``."""
        for end, fault in self.faults.items():
            if path.endswith(end) and fault.times > 0:
                fault.times -= 1
                return fault
        return None


@contextmanager
def faulty_s3() -> Iterator[FaultyS3]:
    """A running server; everything in it is gone at the end."""
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    proxy = _Proxy((host, port))
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy.s3
    finally:
        proxy.s3.over.set()
        proxy.shutdown()
        proxy.server_close()
        moto.stop()


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.s3 = FaultyS3(f"http://127.0.0.1:{self.server_port}")

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that was cut off goes away


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        self.server.s3.requests.append(f"{self.command} {path}")
        fault = self.server.s3.take(path) or Fault(times=0)
        if fault.silent:
            self.server.s3.over.wait(PATIENCE)
        if fault.drop or fault.silent:
            self.close_connection = True
            self.connection.close()
            return
        if fault.status:
            headers = [("Content-Type", "application/xml"), *fault.headers.items()]
            self._answer(fault.status, headers, _ERROR.format(code=fault.code).encode())
            return
        connection = http.client.HTTPConnection(*self.server.upstream, timeout=PATIENCE)
        connection.request(self.command, self.path, body, dict(self.headers.items()))
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if fault.flip is not None:
            data = data[: fault.flip] + bytes([data[fault.flip] ^ 1]) + data[fault.flip + 1 :]
        headers = [(k, v) for k, v in answer.getheaders() if k.lower() not in ("connection", "transfer-encoding")]
        self._answer(answer.status, headers, data, fault)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, fault: Fault | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() != "content-length":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(data)))
        else:
            self.send_header("Content-Length", dict(headers).get("Content-Length", "0"))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is not None and fault.trickle:
            for number in range(len(data)):
                self.wfile.write(data[number : number + 1])
                self.wfile.flush()
                time.sleep(fault.trickle)
        elif fault is not None and fault.cut is not None:
            self.wfile.write(data[: fault.cut])
            self.wfile.flush()
            self.close_connection = True
        else:
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass
