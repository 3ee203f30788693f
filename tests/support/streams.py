"""What a client that collects a stream's chunks ends up with: one joiner for all tests.

It reads chunks of chats and completions, of the relay, the per-chunk
endpoints and vLLM alike. It runs in full vLLM's environment too, so it needs
nothing but the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Any


@dataclass
class Call:
    """A tool call: name and arguments end to end, id and type where any chunk had them."""

    id: str | None = None
    type: str | None = None
    name: str = ""
    arguments: str = ""

    def add(self, part: Mapping[str, Any]) -> None:
        self.id = part.get("id") or self.id
        self.type = part.get("type") or self.type
        function = part.get("function") or {}
        self.name += function.get("name") or ""
        self.arguments += function.get("arguments") or ""


@dataclass
class Choice:
    """One choice. A text that no chunk had is None, one that was only ever empty is ''."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    text: str | None = None
    calls: dict[int, Call] = field(default_factory=dict)
    """By their index in the deltas, in the order in which they began."""
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] = field(default_factory=list)
    logprobs: dict[str, list[Json]] = field(default_factory=dict)

    def add(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta") or {}
        self.role = _longer(self.role, delta.get("role"))
        self.content = _longer(self.content, delta.get("content"))
        self.reasoning = _longer(self.reasoning, delta.get("reasoning"))
        self.text = _longer(self.text, choice.get("text"))
        for part in delta.get("tool_calls") or ():
            self.calls.setdefault(part["index"], Call()).add(part)
        if choice.get("finish_reason") is not None:
            self.finish_reason = choice["finish_reason"]
        if choice.get("stop_reason") is not None:
            self.stop_reason = choice["stop_reason"]
        self.token_ids += choice.get("token_ids") or []
        for key, values in (choice.get("logprobs") or {}).items():
            self.logprobs.setdefault(key, []).extend(values or [])


@dataclass
class Joined:
    """A stream's choices by their index, and the last usage that it told."""

    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] | None = None

    @property
    def only(self) -> Choice:
        """The one choice of a stream that has one."""
        (choice,) = self.choices.values()
        return choice


def join(chunks: Iterable[Mapping[str, Any]]) -> Joined:
    """Put a stream's deltas together."""
    joined = Joined()
    for chunk in chunks:
        joined.usage = chunk.get("usage") or joined.usage
        for choice in chunk["choices"]:
            joined.choices.setdefault(choice["index"], Choice()).add(choice)
    return joined


def events_of(text: str) -> list[Json]:
    """The JSON of a stream's server-sent events, with their framing checked; comments are left out."""
    assert text.endswith("data: [DONE]\n\n"), text[-300:]
    events = [event for event in text.removesuffix("data: [DONE]\n\n").split("\n\n") if event]
    data = [event for event in events if not event.startswith(":")]
    assert all(event.startswith("data: ") for event in data), data
    return [json.loads(event[6:]) for event in data]


def _longer(text: str | None, more: str | None) -> str | None:
    return text if more is None else (text or "") + more
