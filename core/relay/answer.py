"""A streamed answer on its way: what chat and completions have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from core.errors import RequestError
from core.json import Json
from core.protocol.engine import GenerateChunk, StreamChoice, Usage
from core.protocol.openai import dump_metrics
from core.relay.choice import RelayedChoice
from core.relay.chunks import usage, usage_chunk
from core.relay.errors import EngineError, EngineFailed, UnreadableOutput
from core.relay.request import RelayRequest


class AnswerStream(ABC):
    """The chunks of one request's answer, the choices interleaved as the engine sends them.

    Choices are numbered through all prompts.
    """

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        self._choices: dict[int, RelayedChoice] = {}
        self._count = request.n * len(request.prompts)
        # Of what the engine counts, only what the relay cannot know is read.
        self._reported: Usage | None = None
        self._metrics: Json | None = None

    @property
    def finished(self) -> bool:
        """Every choice is complete."""
        return len(self._choices) == self._count and all(choice.finished for choice in self._choices.values())

    @property
    def stopped(self) -> bool:
        """The relay ended a choice: the engine may still be at work on it."""
        return any(choice.stopped for choice in self._choices.values())

    @property
    def tokens(self) -> int:
        """Tokens of all choices so far."""
        return sum(choice.tokens for choice in self._choices.values())

    def begin(self) -> list[Json]:
        """The chunks that go out before any of the engine's."""
        return []

    def advance(self, prompt: int, chunk: GenerateChunk) -> list[Json]:
        """The chunks that one chunk of the engine gives; ``prompt`` says to which prompt it answers.

        Raises:
            EngineFailed: it is not what the engine was asked for.
            UnreadableOutput: the parser cannot read it.
        """
        if chunk.usage is not None and self._reported is None:
            self._reported = chunk.usage
        if chunk.metrics is not None and self._count == 1:
            self._metrics = dump_metrics(chunk.metrics)
        return [written for choice in chunk.choices for written in self._advance(prompt, choice)]

    def end(self) -> list[Json]:
        """The chunks after the last one.

        Raises:
            EngineFailed: a choice is not complete.
        """
        if not self.finished:
            raise EngineFailed("the engine's stream ended before the answer was complete")
        if not self._request.include_usage:
            return []
        with reading():
            reasoning = self._reasoning_tokens()
        counts = usage(self._request.prompt_tokens, self.tokens, reasoning)
        return [usage_chunk(self._request, counts, self._reported, self._metrics)]

    def _advance(self, prompt: int, choice: StreamChoice) -> Iterator[Json]:
        if not 0 <= choice.index < self._request.n:
            raise EngineFailed(f"the engine sent a choice {choice.index} of {self._request.n}")
        place = prompt * self._request.n + choice.index
        relayed = self._choices.get(place)
        if relayed is None:
            with reading():
                self._open(place, prompt)
            relayed = self._choices[place] = RelayedChoice(self._request, prompt)
        for release in relayed.receive(choice):
            try:
                written = self._step(place, prompt, release.choice, release.keep)
            except Exception as exc:
                raise unreadable(exc) from exc
            if written is not None:
                yield written

    @abstractmethod
    def _open(self, place: int, prompt: int) -> None:
        """Make ready for the first chunk of a choice."""

    @abstractmethod
    def _step(self, place: int, prompt: int, choice: StreamChoice, keep: int | None) -> Json | None:
        """The chunk of one engine chunk, or None when it says nothing."""

    def _reasoning_tokens(self) -> int | None:
        """Reasoning tokens of all choices; None where the deployment cannot tell."""
        return None


@contextmanager
def reading() -> Iterator[None]:
    """Around what reads a model's output: a parser that meets anything at all may raise anything."""
    try:
        yield
    except EngineError:
        raise
    except Exception as exc:
        raise unreadable(exc) from exc


def unreadable(exc: Exception) -> UnreadableOutput:
    """The error of an output over which ``exc`` was raised."""
    return UnreadableOutput(exc.message if isinstance(exc, RequestError) else "the model's output cannot be read")
