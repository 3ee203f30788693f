"""What the code of turns has to know of a dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from core.model import Model
from core.protocol.output_options import OutputOptions, chat_options
from core.turns.said import is_answer


class Door(NamedTuple):
    """Where the requests of a dialect hold their answers, and how those are read.

    ``field`` is a list of the body, ``is_answer`` says which of its entries are
    the model's. With ``joined`` such entries in a row are one answer, and any of
    them may carry its ids. ``options`` are those of vLLM's validated request.
    """

    field: str
    is_answer: Callable[[Any], bool]
    joined: bool
    options: Callable[[Model, Any], OutputOptions]


def _options(model: Model, request: Any) -> OutputOptions:
    return chat_options(request)


CHAT = Door("messages", is_answer, False, _options)
"""Chats, and Messages, which are read as chats."""
