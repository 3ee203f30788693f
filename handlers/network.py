"""Where a server listens and how it speaks to what stands before it: addresses, TLS, browsers of other origins.

vLLM's flags keep their names and meaning. Nothing here changes an answer.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from ipaddress import ip_address
from typing import Any

from core.errors import ConfigurationError
from handlers.settings import PREFIX
from handlers.values import Reader, flag_of, names_of, number_of, values_of

# What a Service called derender sets in every pod of its namespace.
_SERVICE_LINK = "tcp://"


@dataclass(frozen=True)
class Network:
    """One server.

    ``uds`` is the path of a Unix socket, in place of ``host`` and ``port``. ``workers`` is how many processes share the
    address. ``keep_alive`` is for how many seconds an idle connection is held: longer than a load balancer in front
    does (60 s by default with AWS's), or the balancer sends a request into a closing connection. The ``ssl_`` files
    are PEM; ``ssl_cert_reqs`` is one of :class:`ssl.VerifyMode`, for the certificates of clients. Pages of
    ``allowed_origins`` may call with ``allowed_methods`` and ``allowed_headers``, and with ``allow_credentials``
    with cookies; without any origin, no page of another origin may.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None
    workers: int = 1
    keep_alive: int = 75
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_ca_certs: str | None = None
    ssl_cert_reqs: int = ssl.CERT_NONE
    ssl_ciphers: str | None = None
    allowed_origins: Sequence[str] = ()
    allowed_methods: Sequence[str] = ("*",)
    allowed_headers: Sequence[str] = ("*",)
    allow_credentials: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ConfigurationError(f"{PREFIX}PORT must be between 0 and 65535, not {self.port}")
        if self.workers < 1:
            raise ConfigurationError(f"{PREFIX}WORKERS must be at least 1, not {self.workers}")
        if self.workers > 1 and self.uds:
            raise ConfigurationError(f"{PREFIX}UDS has one process: {PREFIX}WORKERS must be 1, not {self.workers}")
        if self.keep_alive < 0:
            raise ConfigurationError(f"{PREFIX}KEEP_ALIVE must be a number of seconds, not {self.keep_alive}")
        if bool(self.ssl_keyfile) != bool(self.ssl_certfile):
            raise ConfigurationError(f"{PREFIX}SSL_KEYFILE and {PREFIX}SSL_CERTFILE go together")
        if self.ssl_cert_reqs not in list(ssl.VerifyMode):
            raise ConfigurationError(f"{PREFIX}SSL_CERT_REQS must be 0, 1 or 2, not {self.ssl_cert_reqs}")
        if self.ssl_cert_reqs != ssl.CERT_NONE and not self.ssl_ca_certs:
            raise ConfigurationError(f"{PREFIX}SSL_CERT_REQS requires {PREFIX}SSL_CA_CERTS")
        if self.allow_credentials and "*" in self.allowed_origins:
            raise ConfigurationError(
                f"{PREFIX}ALLOW_CREDENTIALS with every origin in {PREFIX}ALLOWED_ORIGINS lets any page act for its "
                "visitors: name the origins"
            )

    @property
    def address(self) -> str:
        """Where it listens, as a client writes it."""
        if self.uds:
            return f"unix:{self.uds}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.ssl_certfile else 'http'}://{host}:{self.port}"

    @property
    def is_private(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return bool(self.uds) or self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False  # a name: of whatever

    def give_back(self) -> None:
        """Remove what is left of the address when nothing listens any more."""
        if self.uds:
            with suppress(OSError):
                os.unlink(self.uds)

    def uvicorn_options(self) -> dict[str, Any]:
        """The arguments of ``uvicorn.Config`` that these are.

        Raises:
            ConfigurationError: there is no such certificate or key.
        """
        options: dict[str, Any] = {"timeout_keep_alive": self.keep_alive}
        if not self.ssl_certfile:
            return options
        for path in filter(None, (self.ssl_keyfile, self.ssl_certfile, self.ssl_ca_certs)):
            if not os.access(path, os.R_OK):
                raise ConfigurationError(f"{path} cannot be read: it was given for TLS")
        names = ("ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "ssl_cert_reqs", "ssl_ciphers")
        return {**options, **{name: value for name in names if (value := getattr(self, name)) is not None}}


def network_from_environ(environ: Mapping[str, str]) -> tuple[Network, dict[str, str]]:
    """How a server listens, and the variables that are about something else.

    Raises:
        ConfigurationError: names the variable and what it should be.
    """
    names = [entry.name for entry in fields(Network)]
    own = {PREFIX + name.upper() for name in names}
    given = {name: text for name, text in environ.items() if name in own and not text.startswith(_SERVICE_LINK)}
    rest = {name: text for name, text in environ.items() if name not in own}
    return Network(**values_of(given, PREFIX, names, _READERS)), rest


def bound_socket(network: Network) -> socket.socket:
    """A socket that is bound to the address and listens: what connects before the server is ready waits.

    Raises:
        ConfigurationError: the address cannot be had.
    """
    try:
        if network.uds:
            return _unix_socket(network.uds)
        return tcp_socket(network.host, network.port)
    except OSError as exc:
        raise ConfigurationError(f"cannot listen on {network.address}: {exc.strerror or exc}") from exc


def tcp_socket(host: str, port: int, *options: int) -> socket.socket:
    """A socket that is bound to an address; ``options`` are of ``SOL_SOCKET``.

    It says that it is of TCP: asyncio sends small answers at once (``TCP_NODELAY``) only on those that do.

    Raises:
        OSError: the address cannot be had.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        for option in (socket.SO_REUSEADDR, *options):
            bound.setsockopt(socket.SOL_SOCKET, option, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _unix_socket(path: str) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # What a server left that was killed; one that lives answers.
        if os.path.exists(path):
            try:
                bound.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
                bound.close()
                bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            else:
                raise OSError(f"{path} is another server's")
        bound.bind(path)
    except OSError:
        bound.close()
        raise
    return bound


_READERS: dict[str, Reader] = {
    "port": number_of,
    "workers": number_of,
    "keep_alive": number_of,
    "ssl_cert_reqs": number_of,
    "allowed_origins": names_of,
    "allowed_methods": names_of,
    "allowed_headers": names_of,
    "allow_credentials": flag_of,
}
