"""One server: where it is, what goes with every request, and what it was seen to understand.

A call goes out here and nowhere else: encoded, compressed where that is
understood, repeated where that is safe, its failure turned into an error.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import httpx

from derender_client._effects import Lost, Post, Reply, Sleep, Steps
from derender_client._errors import ClientError, ConnectionFailed, RequestFailed, UnexpectedAnswer
from derender_client._retry import Retry, retry_after

# Below this a body fits into one packet anyway.
MIN_COMPRESSED = 1024
# What a server answers to a body that it does not understand.
NOT_UNDERSTOOD = {400, 415, 422}


@dataclass
class Server:
    """``gzip`` and ``extended`` are None until an answer has told.

    ``extended``: whether it is ours, with ``generate_chunks`` and
    ``carry_context``; vLLM's own server is not.
    """

    url: str
    headers: Mapping[str, str]
    timeout: httpx.Timeout
    retry: Retry
    compress: bool = False
    gzip: bool | None = field(default=None, init=False)
    extended: bool | None = field(default=None, init=False)

    def post(self, path: str, content: bytes, compressed: bool = False) -> Post:
        """The request that carries ``content``, JSON text, to ``path``."""
        headers = {**self.headers, "content-type": "application/json"}
        if compressed:
            headers["content-encoding"] = "gzip"
            content = gzip.compress(content, 5, mtime=0)
        return Post(self.url + path, headers, content, self.timeout)


def call(server: Server, path: str, body: Any, pure: bool = True) -> Steps[Any]:
    """Post a body, and give back the JSON of the answer.

    Raises:
        ConnectionFailed, RequestFailed, UnexpectedAnswer
    """
    content = encode(body)
    compressed = server.compress and server.gzip is not False and len(content) >= MIN_COMPRESSED
    reply = yield from _attempts(server, server.post(path, content, compressed), pure)
    if compressed and server.gzip is None:
        if reply.status in NOT_UNDERSTOOD:
            # vLLM's own server does not read gzip. Only a success without it shows that gzip was at fault.
            reply = yield from _attempts(server, server.post(path, content), pure)
            server.gzip = False if reply.status == 200 else None
        elif reply.status == 200:
            server.gzip = True
    if reply.status != 200:
        raise failed(server.url + path, reply)
    return decode(reply.content, f"{server.url}{path} answered with")


def _attempts(server: Server, post: Post, pure: bool) -> Steps[Reply]:
    attempt = 0
    while True:
        outcome: Reply | Lost = yield post
        if isinstance(outcome, Reply) and outcome.status == 200:
            return outcome
        wait = server.retry.wait(attempt, outcome, pure)
        if wait is None:
            return answered(post.url, outcome)
        yield Sleep(wait)
        attempt += 1


def answered(url: str, outcome: Reply | Lost) -> Reply:
    """The answer; raises ConnectionFailed where there is none."""
    if isinstance(outcome, Reply):
        return outcome
    raise lost(url, outcome.error) from outcome.error


def lost(url: str, error: Exception) -> ClientError:
    """The error of an answer that did not come."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, httpx.DecodingError):
        return UnexpectedAnswer(f"{url}: {text}")
    return ConnectionFailed(f"{url}: {name}: {text}" if text else f"{url}: {name}")


def failed(url: str, reply: Reply) -> RequestFailed:
    """The error of an answer that is not a success."""
    return RequestFailed(url, reply.status, reply.content, retry_after(reply.headers))


def encode(body: Any) -> bytes:
    """Compact JSON."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8, but an escape.
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


def decode(content: bytes | str, whose: str) -> Any:
    """The value of a JSON text.

    Raises:
        UnexpectedAnswer: it is not JSON, or holds NaN or an infinity, which could not be sent on.
    """
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as exc:
        shown = content[:80]
        raise UnexpectedAnswer(f"{whose} what is not JSON: {shown!r} ({exc})") from exc


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
