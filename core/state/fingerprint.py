"""Fingerprints that tie a stream state to what shaped it.

vLLM documents that servers with different settings silently split the same
stream differently. Here the state says which settings made it, and another
configuration is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from core.errors import InvalidState
from core.protocol.json_text import json_bytes

# Raised whenever the meaning of a state changes: states of another version are refused.
STATE_VERSION = 3
_HEX = 16
# Between the digits and the version of the slice, which is told apart so that a state of another one can be named.
_OF = "@"
_SLICE = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}\+slice\.\d{1,4}")


def fingerprint(parts: Mapping[str, Any]) -> str:
    """16 hexadecimal digits over the parts, the same for equal parts in any order."""
    return digest(json_bytes(parts, sort_keys=True))


def with_slice(digits: str, slice_version: str) -> str:
    """A deployment's fingerprint with the version of its slice of vLLM."""
    return f"{digits}{_OF}{slice_version}"


def digest(text: bytes) -> str:
    """16 hexadecimal digits over text that is already in a fixed form."""
    return hashlib.sha256(text).hexdigest()[:_HEX]


def check_fingerprint(carried: str | None, expected: str) -> None:
    """Refuse a state of another configuration.

    A state without one comes from vLLM's own server, or through a client that keeps its fields alone: what those
    say of it is looked at in ``core.state.origin``.

    Raises:
        InvalidState: names the field and what differs, or may.
    """
    if carried is not None and carried != expected:
        theirs, ours = carried.partition(_OF)[2], expected.partition(_OF)[2]
        if theirs != ours and _SLICE.fullmatch(theirs):
            raise InvalidState(
                f"config does not match: the state was made with the parsers of vLLM {theirs}, and this server has "
                f"those of {ours}; every chunk of a stream needs the same deployment",
                "stream_state.config",
            )
        raise InvalidState(
            "config does not match: the state was made at another endpoint, or with another tokenizer, parser, chat "
            "template arguments, tools or version; every chunk of a stream needs the same deployment and chat_request",
            "stream_state.config",
        )
