"""Chats of a wanted number of tokens, from English prose that every Python brings: the topics of ``help()``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

from core.tokenizer.fast.corpus import prose

# Characters in a token of this prose, to begin a search with.
_CHARS = 4.2
# Windows on the prose begin this many characters apart: no two chats repeat one another's messages.
_STEP = 1_733
_TURN = 600


def chat(characters: int, number: int) -> dict[str, Any]:
    """A chat request whose messages hold ``characters`` of prose: turns of about 600, a system message first.

    Each ``number`` has a text of its own.
    """
    text = prose()
    start = number * _STEP % (len(text) - characters)
    window = text[start : start + characters]
    parts = [window[at : at + _TURN] for at in range(0, characters, _TURN)] or [window]
    if len(parts) % 2 == 0 and len(parts) > 1:  # the last turn is the user's
        parts[-2:] = [parts[-2] + parts[-1]]
    roles = cycle(("user", "assistant"))
    messages = [{"role": role, "content": part} for role, part in zip(roles, parts, strict=False)]
    if characters >= _TURN:
        messages.insert(0, {"role": "system", "content": "Answer in one short paragraph."})
    return {"model": "m", "messages": messages, "max_tokens": 256}


def characters_for(tokens: int, count: Callable[[int], float]) -> int:
    """How many characters of prose give about ``tokens``; ``count`` tells the tokens of so many characters."""
    characters = int(tokens * _CHARS)
    for _ in range(8):
        found = count(characters)
        if abs(found - tokens) <= max(1, tokens // 500):
            break
        characters = max(1, characters + int((tokens - found) * _CHARS))
    return characters
