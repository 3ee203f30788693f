"""The request of a stream, read once: its chunks come with the same one over and over.

Validating a request takes longer than most chunks do. What follows from a
request alone is kept under its digest; a request that differs in anything has
another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from core.choice.audit import Expected, expected_of
from core.json import JsonValue
from core.kept import sum_of
from core.protocol.output_options import OutputOptions, chat_options

if TYPE_CHECKING:
    from core.choice.asked import Asked
    from core.parsing.chat_parser import ChatParser


class Shaping(NamedTuple):
    """What of a request shapes its output, by name.

    ``config`` is the fingerprint in a state; ``prototype`` names the parser to
    copy, None where the tools are too large for one to be kept.
    """

    config: str
    prototype: str | None


class KnownRequest:
    """A validated request, and what is read of it, each part when it is first wanted. Calls share it.

    Parameters
    ----------
    chat_request:
        vLLM's ``ChatCompletionRequest``, or another that its parsers read.
    digest:
        What stands for it among the requests that a deployment keeps.
    read_options:
        Reads what it says about its output, in a dialect of its own.

    ``made`` is what its dialect made of it for the next chunk, None until then.
    """

    def __init__(
        self, chat_request: Any, digest: bytes, read_options: Callable[[Any], OutputOptions] = chat_options
    ) -> None:
        self.chat_request = chat_request
        self.digest = digest
        self.shaping: Shaping | None = None
        self.made: Any = None
        self._asked: Asked | None = None
        self._read_options = read_options

    @cached_property
    def options(self) -> OutputOptions:
        """What it says about its output."""
        return self._read_options(self.chat_request)

    @cached_property
    def expected(self) -> Expected:
        """What the audit expects of its output."""
        return expected_of(self.chat_request)

    @cached_property
    def as_chat(self) -> Any:
        """The chat that it is to a repaired reading; see :func:`~core.upstream.parsers.as_chat`."""
        from core.upstream.parsers import as_chat  # late: only a deployment with a parser has vLLM's modules loaded

        return as_chat(self.chat_request)

    def asked(self, keeps_calls: bool) -> Asked:
        """What a repaired reading of its output needs; see :func:`~core.choice.asked.asked_of`."""
        if self._asked is None:
            from core.choice.asked import asked_of  # late: a deployment that answers as vLLM does starts without it

            self._asked = asked_of(self.as_chat, keeps_calls=keeps_calls)
        return self._asked


def known_request(
    parser: ChatParser,
    dialect: str,
    request: JsonValue,
    validate: Callable[[], Any],
    read_options: Callable[[Any], OutputOptions] = chat_options,
) -> KnownRequest:
    """A request of a dialect; ``validate`` makes vLLM's of it, where it is not known yet.

    Raises:
        SchemaError, BadRequest: as ``validate`` does.
    """
    digest, cost = sum_of([dialect, request])
    known = parser.requests.get(digest)
    if known is None:
        known = KnownRequest(validate(), digest, read_options)
        parser.requests.put(digest, known, cost)
    return known


def known_chat(parser: ChatParser, request: Mapping[str, Any]) -> KnownRequest:
    """A chat request.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return known_request(parser, "chat", request, lambda: parser.validate(request))
