"""Fetching: only from listed domains, only from public addresses, within bounds, redirects checked again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from core.errors import BadRequest, Unprocessable
from handlers.media_fetch import MediaFetcher, is_public
from tests.images.recorded import file

PICTURE = file("png_28x28")
PRIVATE = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.1.2.3", "169.254.169.254", "172.16.0.1", "172.31.255.254",
    "192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2001:0:7f00:1::", "not an address",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, _, rest = self.path.lstrip("/").partition("/")
        if kind == "redirect":
            self.send_response(302)
            self.send_header("Location", rest)
            self.end_headers()
        elif kind == "status":
            self.send_response(int(rest))
            self.end_headers()
        elif kind == "endless":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(65536))
            except OSError:
                pass
        elif kind == "declared":
            self.send_response(200)
            self.send_header("Content-Length", "99999999999")
            self.end_headers()
        elif kind == "silent":
            self.server.stopped.wait(30)  # type: ignore[attr-defined]
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(PICTURE)))
            self.end_headers()
            self.wfile.write(PICTURE)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    server.stopped = threading.Event()  # type: ignore[attr-defined]
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://pictures.example:{server.server_address[1]}"
    server.stopped.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


def fetcher(**options: Any) -> MediaFetcher:
    """One that finds every name on this machine, and may go there."""
    usual: dict[str, Any] = {"domains": ("pictures.example",), "resolve": lambda *_: ["127.0.0.1"]}
    return MediaFetcher(**{**usual, "allowed": lambda _: True, "timeout": 20, "max_bytes": 1_000_000, **options})


def one(url: str, **options: Any) -> Any:
    return fetcher(**options).fetch([url])[url]


def test_a_file(origin: str) -> None:
    assert one(f"{origin}/picture") == PICTURE


def test_several_files_at_once(origin: str) -> None:
    urls = [f"{origin}/{index}" for index in range(20)]
    assert list(fetcher(max_bytes=20 * len(PICTURE)).fetch(urls).values()) == [PICTURE] * 20


def test_a_redirect_is_followed(origin: str) -> None:
    assert one(f"{origin}/redirect/{origin}/picture") == PICTURE
    assert one(f"{origin}/redirect//picture") == PICTURE


@pytest.mark.parametrize(
    "url",
    [
        "http://elsewhere.example/a",
        "https://PICTURES.example.evil/a",
        "http://127.0.0.1/a",
        "http://user@other.example/",
    ],
)
def test_other_domains_are_refused(url: str, origin: str) -> None:
    for asked in (url, f"{origin}/redirect/{url}"):
        found = one(asked)
        assert isinstance(found, BadRequest)
        assert "must be from one of the allowed domains: ['pictures.example']" in found.message


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_leads_to_a_private_address_is_refused(address: str) -> None:
    found = one("http://pictures.example/a", resolve=lambda *_: ["8.8.8.8", address], allowed=is_public)
    assert isinstance(found, BadRequest)
    assert found.message == "The URL's domain leads to an address that is not public: pictures.example"


def test_a_redirect_to_a_private_address_is_refused(origin: str) -> None:
    """The first name may be reached, the second is a listed one that resolves to the metadata service."""
    names = {"pictures.example": ["127.0.0.1"], "second.example": ["169.254.169.254"]}
    found = one(
        f"{origin}/redirect/http://second.example/latest/meta-data",
        domains=("pictures.example", "second.example"),
        resolve=lambda host, _: names[host],
        allowed=lambda address: address == "127.0.0.1",
    )
    assert isinstance(found, BadRequest)


def test_a_name_is_resolved_once(origin: str) -> None:
    """A name that resolves otherwise a moment later gains nothing: the connection goes to what was checked."""
    answers = iter([["127.0.0.1"]])
    assert one(f"{origin}/picture", resolve=lambda *_: next(answers)) == PICTURE


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("status/404", "HTTP 404 error"),
        ("status/503", "HTTP 503 error"),
        ("endless", "the file is larger than 1000000 bytes"),
        ("declared", "the file is larger than 1000000 bytes"),
        ("redirect/ftp://pictures.example/a", "Invalid URL format"),
        ("redirect/", "too many redirects"),
    ],
)
def test_what_cannot_be_had_is_a_422(path: str, reason: str, origin: str) -> None:
    found = one(f"{origin}/{path}")
    assert isinstance(found, Unprocessable)
    assert found.message == f"Failed to fetch media from URL: {reason} (parameter=image_url)"


def test_a_silent_server_is_left(origin: str) -> None:
    found = one(f"{origin}/silent", timeout=0.2)
    assert isinstance(found, Unprocessable)


def test_without_redirects(origin: str) -> None:
    assert isinstance(one(f"{origin}/redirect/{origin}/picture", max_redirects=0), Unprocessable)


@pytest.mark.parametrize(
    "url", ["http://", "http:///a", "http://[::1", "http://pictures.example:0/", "http://pictures.example:99999/",
            "http://pictures.example\\@other.example/", "http://pictures.example/a b", "http://pictures.example/\n"]
)  # fmt: skip
def test_urls_that_could_be_read_two_ways(url: str) -> None:
    assert isinstance(one(url), Unprocessable)


def test_a_name_without_an_address() -> None:
    def resolve(*_: Any) -> list[str]:
        raise socket.gaierror

    assert isinstance(one("http://pictures.example/a", resolve=resolve), Unprocessable)
