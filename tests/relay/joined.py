"""A stream's deltas joined: what a client that collects them ends up with.

Both the relay's chunks and those of the per-chunk endpoints go through here; it must read both alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

Json = Any
_RANDOM = re.compile(r"\$\d+|[0-9a-f]{16,64}")
_MISTRAL_ID = re.compile(r"^[A-Za-z0-9]{9}$|^mistral-.*$")


def events_of(text: str) -> list[Json]:
    """The JSON of a stream's events, checking the framing; comments are left out."""
    assert text.endswith("data: [DONE]\n\n"), text[-300:]
    events = [event for event in text.removesuffix("data: [DONE]\n\n").split("\n\n") if event]
    data = [event for event in events if not event.startswith(":")]
    assert all(event.startswith("data: ") for event in data), data
    return [json.loads(event[6:]) for event in data]


def joined(chunks: Iterable[Json]) -> dict[int, Json]:
    """What each choice adds up to. An id that is drawn at random only counts as there."""
    choices: dict[int, Json] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            whole = choices.setdefault(choice["index"], _nothing())
            for key in ("finish_reason", "stop_reason"):
                if choice.get(key) is not None:
                    whole[key] = choice[key]
            whole["token_ids"] += choice.get("token_ids") or []
            _join_logprobs(whole["logprobs"], choice.get("logprobs"))
            whole["text"] += choice.get("text") or ""
            _join_delta(whole, choice.get("delta") or {})
    return choices


def _nothing() -> Json:
    return {
        "role": "",
        "text": "",
        "content": "",
        "reasoning": "",
        "tool_calls": {},
        "finish_reason": None,
        "stop_reason": None,
        "token_ids": [],
        "logprobs": {},
    }


def _join_delta(whole: Json, delta: Json) -> None:
    for key in ("role", "content", "reasoning"):
        whole[key] += delta.get(key) or ""
    for call in delta.get("tool_calls") or ():
        found = whole["tool_calls"].setdefault(call["index"], {"id": "", "type": "", "name": "", "arguments": ""})
        for key in ("id", "type"):
            found[key] = found[key] or _named(call.get(key) or "")
        function = call.get("function") or {}
        for key in ("name", "arguments"):
            found[key] += function.get(key) or ""


def _join_logprobs(whole: Json, logprobs: Json) -> None:
    for key, values in (logprobs or {}).items():
        whole.setdefault(key, [])
        whole[key] += values or []


def _named(text: str) -> str:
    return "mistral" if _MISTRAL_ID.match(text) else _RANDOM.sub("$", text)
