"""Fetching images of http(s) URLs: from listed domains, never from an address that is not public, within bounds.

A URL is the client's. Its domain must be one that the operator lists; the name
is resolved once, every address must be public, and the connection goes to an
address that was checked, so that a name which resolves otherwise a moment
later gains nothing. Each redirect is a new URL and is checked like the first.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from urllib.parse import SplitResult, urljoin, urlsplit

from core.errors import BadRequest, RequestError, Unprocessable
from core.render.media import Files

_CHUNK = 64 * 1024
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_AT_ONCE = 8
_FAILED = "Failed to fetch media from URL: "

Resolve = Callable[[str, int], Sequence[str]]


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as the system's resolver knows them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, in itself and in what it may carry inside."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return _is_public_v4(parsed)
    if parsed.ipv4_mapped is not None:
        return _is_public_v4(parsed.ipv4_mapped)
    if parsed in _NAT64:
        return _is_public_v4(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF))
    # Tunnels lead to an IPv4 address of anyone's choice.
    tunnelled = parsed.sixtofour is not None or parsed.teredo is not None
    return parsed in _UNICAST and parsed.is_global and not tunnelled


def _is_public_v4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved and address not in _PROTOCOLS


_UNICAST = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Python knew these as public before 3.11.10.
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")


@dataclass(frozen=True)
class MediaFetcher:
    """Fetches the files of one request.

    ``domains`` are host names, compared whole; without any, nothing is
    fetched. ``timeout`` bounds one file in seconds, redirects included,
    ``max_bytes`` all files of a request together. ``resolve`` and ``allowed``
    say what a name's addresses are and which of them may be reached.
    """

    domains: tuple[str, ...]
    timeout: float = 5.0
    max_bytes: int = 64 * 1024 * 1024
    max_redirects: int = 5
    resolve: Resolve = resolve
    allowed: Callable[[str], bool] = is_public
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    clock: Callable[[], float] = time.monotonic

    def fetch(self, urls: Sequence[str]) -> Files:
        """The file of each URL, or why there is none. Takes as long as the slowest."""
        share = max(1, self.max_bytes // max(1, len(urls)))
        with ThreadPoolExecutor(min(_AT_ONCE, len(urls))) as pool:
            found = list(pool.map(lambda url: self._file(url, share), urls))
        return dict(zip(urls, found, strict=True))

    def _file(self, url: str, max_bytes: int) -> bytes | RequestError:
        deadline = self.clock() + self.timeout
        try:
            for _ in range(self.max_redirects + 1):
                found = self._one(url, deadline, max_bytes)
                if isinstance(found, bytes):
                    return found
                url = urljoin(url, found)
            return unprocessable("too many redirects")
        except RequestError as exc:
            return exc
        except TimeoutError:
            return unprocessable(f"no answer within {self.timeout:g} seconds")
        except (OSError, HTTPException, ValueError) as exc:
            return unprocessable(type(exc).__name__)

    def _one(self, url: str, deadline: float, max_bytes: int) -> bytes | str:
        """The file of a URL, or where it redirects to."""
        parts = self._checked(url)
        connection = self._connect(parts, deadline)
        # A server that sends a byte now and then never runs into a socket's time-out: the line is cut at the end.
        end = threading.Timer(self._left(deadline), _cut, [connection])
        end.start()
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.putrequest("GET", target, skip_accept_encoding=True)
            connection.putheader("Accept", "image/*")
            connection.putheader("User-Agent", "derender")
            connection.endheaders()
            response = connection.getresponse()
            if response.status in _REDIRECTS and self.max_redirects:
                return response.getheader("Location", "")
            if response.status != 200:
                raise unprocessable(f"HTTP {response.status} error")
            if response.getheader("Content-Encoding", "identity").lower() != "identity":
                raise unprocessable("the file is compressed for the way")
            return self._read(response, deadline, max_bytes)
        finally:
            end.cancel()
            connection.close()

    def _checked(self, url: str) -> SplitResult:
        """A URL's parts, if it may be fetched.

        Raises:
            RequestError: it may not.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise unprocessable("Invalid URL format") from None
        if parts.scheme not in ("http", "https") or not host or port == 0 or not _is_plain(url):
            raise unprocessable("Invalid URL format")
        if host not in self.domains:
            raise BadRequest(
                f"The URL must be from one of the allowed domains: {list(self.domains)}. "
                f"Input URL domain: {host[:255]}",
                "image_url",
            )
        return parts

    def _connect(self, parts: SplitResult, deadline: float) -> HTTPConnection:
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        try:
            addresses = self.resolve(host, port)
        except OSError:
            raise unprocessable("the domain has no address") from None
        if not addresses or not all(map(self.allowed, addresses)):
            raise BadRequest(f"The URL's domain leads to an address that is not public: {host[:255]}", "image_url")
        connection = HTTPConnection(host, port)
        line = socket.create_connection((addresses[0], port), timeout=self._left(deadline))
        line.settimeout(self._left(deadline))
        connection.sock = self.tls.wrap_socket(line, server_hostname=host) if secure else line
        return connection

    def _read(self, response: HTTPResponse, deadline: float, max_bytes: int) -> bytes:
        length = response.getheader("Content-Length", "")
        if length.isdecimal() and int(length[:20]) > max_bytes:
            raise unprocessable(f"the file is larger than {max_bytes} bytes")
        parts: list[bytes] = []
        size = 0
        while True:
            part = response.read1(_CHUNK)
            if not part:
                return b"".join(parts)
            self._left(deadline)
            size += len(part)
            if size > max_bytes:
                raise unprocessable(f"the file is larger than {max_bytes} bytes")
            parts.append(part)

    def _left(self, deadline: float) -> float:
        left = deadline - self.clock()
        if left <= 0:
            raise TimeoutError
        return left


def _cut(connection: HTTPConnection) -> None:
    with suppress(OSError, AttributeError):  # closed meanwhile
        connection.sock.shutdown(socket.SHUT_RDWR)


def _is_plain(url: str) -> bool:
    """Whether no other reader could take the URL for another: no control characters, spaces or backslashes."""
    return url.isascii() and not any(ord(char) <= 0x20 or char in "\\\x7f" for char in url)


def unprocessable(reason: str) -> Unprocessable:
    """The answer to a URL whose file cannot be had."""
    return Unprocessable(f"{_FAILED}{reason} (parameter=image_url)", "image_url")
