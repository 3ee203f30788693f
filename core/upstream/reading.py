"""What reading an output gives, whatever the dialect. Imports no vLLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Segment(NamedTuple):
    """What a piece of harmony says: ``delta`` in a message of ``channel``, or the end of one, with ``message``.

    ``flushed`` says that the message ended because the output did.
    """

    channel: str | None
    recipient: str | None
    delta: str
    message: Any = None
    flushed: bool = False


class Whole(NamedTuple):
    """What a complete output says, calls in the form of a chat's; ``segments`` only where a dialect asks for them."""

    reasoning: str | None
    content: str | None
    tool_calls: list[dict[str, Any]]
    segments: Sequence[Segment] | None = None
