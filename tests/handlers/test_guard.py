"""Clients that are slow, many, or not to be understood in one way: each gets an answer, and nobody else notices."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from core.errors import Overloaded
from handlers.work.room import Room
from tests.support.processes import observed_process, service
from tests.support.waiting import PATIENCE, wait_for

CONNECTIONS = 4
OPTIONS = ["--header-timeout", "1", "--body-timeout", "1", "--max-connections", str(CONNECTIONS)]
HEAD = b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
JSON = {"content-type": "application/json"}
BODY = b'{"prompt": "hi"}'


@pytest.fixture(scope="module")
def address(models_dir: Path) -> Iterator[tuple[str, int]]:
    options = [*OPTIONS, "--max-bytes-in-flight", "1000000"]
    with observed_process(*service(models_dir / "qwen3", *options)) as (url, _):
        yield "127.0.0.1", int(url.rpartition(":")[2])


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=PATIENCE)


def answer(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """What comes until the connection is closed."""
    data = b""
    while block := sock.recv(65536):
        data += block
    if not data:
        return 0, {}, b""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


def ask(address: tuple[str, int], request: bytes) -> tuple[int, dict[str, str], bytes]:
    with closing(connect(address)) as sock:
        sock.sendall(request)
        return answer(sock)


def whole(head: bytes = HEAD, body: bytes = BODY) -> bytes:
    return head + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("sent", [b"", b"POST /tok", HEAD])
def test_headers_have_their_time(address: tuple[str, int], sent: bytes) -> None:
    status, headers, body = ask(address, sent)
    assert status == 408
    assert headers["connection"] == "close"
    assert json.loads(body)["error"]["type"] == "RequestTimeoutError"


def test_a_header_that_drips_gets_no_more_time(address: tuple[str, int]) -> None:
    with closing(connect(address)) as sock:
        sock.settimeout(0.05)
        sock.sendall(HEAD)
        for _ in range(int(PATIENCE / 0.05)):
            try:
                sock.sendall(b"x")
                if sock.recv(12) == b"HTTP/1.1 408":
                    return
            except TimeoutError:
                pass
    raise AssertionError("it went on")


def test_the_next_request_of_a_connection_has_its_time_too(address: tuple[str, int]) -> None:
    with closing(connect(address)) as sock:
        sock.sendall(whole().replace(b"connection: close\r\n", b""))
        assert sock.recv(12) == b"HTTP/1.1 200"
        sock.sendall(HEAD)
        while block := sock.recv(65536):
            last = block
    assert b"408" in last


def test_a_body_has_its_time(address: tuple[str, int]) -> None:
    status, headers, body = ask(address, whole()[:-1])
    assert status == 408
    assert headers["connection"] == "close"
    assert "body" in json.loads(body)["error"]["message"]


def test_a_body_that_nobody_reads_has_its_time(address: tuple[str, int]) -> None:
    """The answer is there at once; what goes on being sent is cut."""
    with closing(connect(address)) as sock:
        sock.sendall(HEAD.replace(b"application/json", b"text/plain") + b"content-length: 1000000\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 400"
        sock.settimeout(0.05)
        for _ in range(int(PATIENCE / 0.05)):
            try:
                sock.sendall(b"x")
                if not sock.recv(65536):
                    return
            except TimeoutError:
                pass
            except OSError:
                return
    raise AssertionError("it went on")


def test_bytes_in_flight_are_bounded(address: tuple[str, int]) -> None:
    body = b'{"prompt": "%s"}' % (b" " * 600_000)
    with closing(connect(address)) as first:
        first.sendall(whole(body=body)[:-1])
        answers = []

        def refused() -> bool:
            # The first body is read when it is read.
            answers.append(httpx.post(f"http://127.0.0.1:{address[1]}/tokenize", content=body, headers=JSON))
            return answers[-1].status_code == 503

        assert wait_for(refused)
        assert answers[-1].headers["retry-after"] == "1"
        assert "max_bytes_in_flight" in answers[-1].text
        assert answer(first)[0] in (200, 408)
    assert ask(address, whole(body=body))[0] == 200


def test_connections_are_bounded_and_health_checks_are_answered(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(closing(connect(address))) for _ in range(CONNECTIONS)]
        assert wait_for(lambda: ask(address, whole())[0] == 503)
        status, headers, body = ask(address, whole())
        assert (status, headers["retry-after"]) == (503, "1")
        assert b"max_connections" in body
        assert httpx.get(f"http://{address[0]}:{address[1]}/health").status_code == 200
        more = [stack.enter_context(closing(connect(address))) for _ in range(CONNECTIONS + 40)]
        assert {answer(one)[0] for one in more} == {503, 408}
        assert {answer(one)[0] for one in idle} == {408}
    assert wait_for(lambda: ask(address, whole())[0] == 200)


@pytest.mark.parametrize(
    "request_bytes",
    [
        whole().replace(b"host: x\r\n", b"host: x\n"),
        whole().replace(b"\r\n", b"\n"),
        whole(HEAD + b"transfer-encoding: chunked\r\n", b"0\r\n\r\n"),
        whole(HEAD + b"content-length: 3\r\n"),
    ],
    ids=["one bare feed", "bare feeds", "two lengths", "another length"],
)
def test_what_can_be_read_in_two_ways_is_refused(address: tuple[str, int], request_bytes: bytes) -> None:
    assert ask(address, request_bytes)[0] == 400


@pytest.mark.parametrize("pause", [0, 0.05])
def test_honest_requests_are_answered(address: tuple[str, int], pause: float) -> None:
    chunked = HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    for request in (whole(), chunked):
        with closing(connect(address)) as sock:
            for place in range(0, len(request), 40):
                sock.sendall(request[place : place + 40])
                time.sleep(pause)
            assert answer(sock)[0] == 200


def test_requests_that_follow_each_other_without_waiting_are_answered(address: tuple[str, int]) -> None:
    one = whole().replace(b"connection: close\r\n", b"")
    with closing(connect(address)) as sock:
        sock.sendall(one + one + whole())
        data = b""
        while block := sock.recv(65536):
            data += block
    assert data.count(b"HTTP/1.1 200") == 3


def test_a_body_alone_may_be_of_any_size() -> None:
    room = Room(100, 1)
    with room.taken() as took:
        took(500)
        with room.taken() as other, pytest.raises(Overloaded):
            other(1)
    assert room.held == 0
    room.connections = lambda: 2
    with pytest.raises(Overloaded), room.taken():
        pass
