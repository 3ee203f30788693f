"""What the logic of this package asks of the outside world.

Everything between a public method and the network is a generator that yields
these effects and is sent their results. The two clients differ only in how
they carry effects out, so the logic is written once, and never does I/O.

    effect      result
    Post        Reply or Lost
    Sleep       None
    Now         seconds of a clock that never goes back
    Open        Reply or Lost; the body of a success stays open, to be read
    Read        Event or Ended of one open source; None when the time is up
    Emit        None, once the caller of the iterator comes back
    Together    the results, in order
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import httpx

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Post:
    """Post ``content`` and read the whole answer."""

    url: str
    headers: Mapping[str, str]
    content: bytes
    timeout: httpx.Timeout

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """This call as the client that sends it wants it, with its own headers and cookies."""
        return http.build_request("POST", self.url, headers=self.headers, content=self.content, timeout=self.timeout)


@dataclass(frozen=True)
class Reply:
    """An answer; ``content`` is empty where the body is open as a stream."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True)
class Lost:
    """There was no complete answer; ``error`` is httpx's."""

    error: Exception


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Now:
    """What time it is. The logic never looks at a clock itself, so that a test can say what time it is."""


@dataclass(frozen=True)
class Open:
    """Post, and keep the body of a success open as the stream ``source``.

    ``ahead``: read it while other effects are carried out. Several sources,
    and reads with a timeout, need it.
    """

    source: int
    post: Post
    ahead: bool


@dataclass(frozen=True)
class Read:
    """The next event of any open source, at most ``timeout`` seconds from now (None: no limit, 0: if it is there)."""

    timeout: float | None


@dataclass(frozen=True)
class Event:
    """The data of one server-sent event."""

    source: int
    data: str


@dataclass(frozen=True)
class Ended:
    """A source has no more events; ``error`` where it broke off."""

    source: int
    error: Exception | None = None


@dataclass(frozen=True)
class Emit:
    """Give ``value`` to the caller of the iterator."""

    value: Json


@dataclass(frozen=True)
class Together:
    """Run all, at the same time where that is possible."""

    steps: tuple[Steps[Any], ...]


Effect: TypeAlias = Post | Sleep | Now | Open | Read | Emit | Together
Steps: TypeAlias = Generator[Effect, Any, T]


@dataclass(frozen=True)
class Finished(Generic[T]):
    """Steps that came to their end, and what they return."""

    value: T


def advance(steps: Steps[T], result: Any) -> Effect | Finished[T]:
    """Give ``steps`` the result of their last effect (at first None), and take the next effect."""
    try:
        return steps.send(result)
    except StopIteration as end:
        return Finished(end.value)
