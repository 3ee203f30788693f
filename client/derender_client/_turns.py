"""The turns of a conversation: their ids, which of them hang together, and samples to train on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from derender_client._effects import Json
from derender_client._packing import pack_ids

_NO_WORD = "this server says nothing of turns"


@dataclass(frozen=True)
class Turn:
    """One turn: the prompt that the engine saw, and what it sampled.

    ``logprobs`` are those of the sampled ids, None where the engine gave none.
    ``mode``, ``kept``, ``reason`` and ``sampled_spans`` are what render said:
    how many of the first prompt ids are those of the turn before, why not all,
    and which (start, end) of the prompt were sampled in earlier turns.
    """

    prompt_token_ids: list[int]
    output_token_ids: list[int]
    logprobs: list[float] | None
    mode: str
    kept: int
    reason: str | None
    sampled_spans: list[tuple[int, int]]

    @property
    def token_ids(self) -> list[int]:
        """The prompt and what was sampled."""
        return [*self.prompt_token_ids, *self.output_token_ids]


@dataclass(frozen=True)
class Break:
    """A turn, by its number from 0, whose prompt does not begin with the turn before and its output; and why."""

    turn: int
    reason: str


@dataclass(frozen=True)
class Sample:
    """One unbroken sequence of ids.

    ``sampled`` says of each id whether the model sampled it in one of the
    ``turns`` (their numbers); ``logprobs`` has a value for each sampled id
    where the engine gave one, None elsewhere.
    """

    token_ids: list[int]
    sampled: list[bool]
    logprobs: list[float | None]
    turns: list[int]


@dataclass
class History:
    """The turns so far, and what the next render needs of the last one."""

    policy: str
    turns: list[Turn] = field(default_factory=list)
    state: Json | None = None

    def continue_from(self) -> Json:
        """The field of the next request."""
        if not self.turns or self.state is None:
            return {"policy": self.policy}
        last = self.turns[-1]
        return {
            "policy": self.policy,
            "token_ids": pack_ids(last.prompt_token_ids),
            "output_token_ids": pack_ids(last.output_token_ids),
            "turn_state": self.state,
        }

    def add(self, told: Json | None, state: Json | None, prompt: list[int], choices: Sequence[Json]) -> None:
        """Note a turn that is complete: what render said of its prompt, and the engine's choices in their order."""
        told = told or {"mode": "plain", "kept": 0, "reason": _NO_WORD, "sampled_spans": []}
        output = [number for choice in choices for number in choice.get("token_ids") or ()]
        spans = [(start, end) for start, end in told["sampled_spans"]]
        turn = Turn(prompt, output, _logprobs(choices), told["mode"], told["kept"], told["reason"], spans)
        self.turns.append(turn)
        self.state = state

    def breaks(self) -> Iterator[Break]:
        """The turns that do not begin with the one before and its output."""
        for number in range(1, len(self.turns)):
            before, turn = self.turns[number - 1].token_ids, self.turns[number]
            if turn.prompt_token_ids[: len(before)] != before:
                yield Break(number, turn.reason or "the template ends the answer with another token")

    def samples(self) -> Iterator[Sample]:
        """The turns as unbroken sequences, one more than there are breaks."""
        starts = {0, *(one.turn for one in self.breaks())}
        for start in sorted(starts):
            if start >= len(self.turns):
                return
            end = min((other for other in starts if other > start), default=len(self.turns))
            yield _sample(self.turns, range(start, end))


def _sample(turns: Sequence[Turn], numbers: range) -> Sample:
    token_ids = turns[numbers[-1]].token_ids
    sampled = [False] * len(token_ids)
    logprobs: list[float | None] = [None] * len(token_ids)
    for number in numbers:
        turn = turns[number]
        begin = len(turn.prompt_token_ids)
        for place in range(len(turn.output_token_ids)):
            sampled[begin + place] = True
            if turn.logprobs is not None:
                logprobs[begin + place] = turn.logprobs[place]
    return Sample(token_ids, sampled, logprobs, list(numbers))


def _logprobs(choices: Sequence[Json]) -> list[float] | None:
    """The log probabilities of the sampled ids; None unless each id has one."""
    found: list[float] = []
    for choice in choices:
        content: Any = (choice.get("logprobs") or {}).get("content")
        ids = choice.get("token_ids") or ()
        if content is None or len(content) != len(ids):
            if ids:
                return None
            continue
        found += [entry["logprob"] for entry in content]
    return found or None


class Message:
    """An answer's message put together of the deltas of a stream."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._calls: dict[int, Json] = {}

    def add(self, chunk: Json) -> None:
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            for name in ("content", "reasoning"):
                if delta.get(name) is not None:
                    self._texts[name] = self._texts.get(name, "") + delta[name]
            for part in delta.get("tool_calls") or ():
                self._add_call(part)

    def _add_call(self, part: Json) -> None:
        call = self._calls.setdefault(
            part.get("index", 0), {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call["id"] = call["id"] or part.get("id")
        function = part.get("function") or {}
        for name in ("name", "arguments"):
            call["function"][name] += function.get(name) or ""

    def whole(self) -> Json:
        """The message."""
        calls = [self._calls[index] for index in sorted(self._calls)]
        message: Json = {"role": "assistant", "content": self._texts.get("content"), **self._texts}
        return {**message, "tool_calls": calls} if calls else message
