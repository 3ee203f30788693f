"""A streamed answer on its way: the choices as the engine sends them, read and written in the request's dialect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from core.choice.output import ChoiceOutput, ChoiceStream, Report, unreported
from core.choice.reader import OutputReader
from core.choice.text import TextStream
from core.errors import RequestError
from core.json import Json
from core.protocol.engine import GenerateChunk, StreamChoice, Usage
from core.protocol.openai import dump_metrics
from core.relay.choice import RelayedChoice
from core.relay.chunks import usage
from core.relay.errors import EngineError, EngineFailed, UnreadableOutput
from core.relay.request import RelayRequest


class AnswerWriter(Protocol):
    """Writes one answer's outputs in a dialect. Choices are numbered through all prompts: ``place``."""

    def begin(self, counts: Json | None) -> list[Json]:
        """The chunks that go out before any of the engine's; ``counts`` is the usage that they show."""
        ...

    def write(self, place: int, prompt: int, output: ChoiceOutput, counts: Json | None) -> list[Json]:
        """The chunks of one output; ``counts`` is the usage up to it, where the request asks for it."""
        ...

    def end(self, counts: Json | None, reported: Usage | None, metrics: Json | None) -> list[Json]:
        """The chunks after the last output.

        ``counts`` is the usage of all choices, where the request asks for it;
        ``reported`` what the engine counts, ``metrics`` its timings.
        """
        ...

    def fail(self, error: RequestError) -> list[Json]:
        """What ends the answer where it cannot go on."""
        ...


class AnswerStream:
    """The chunks of one request's answer, the choices interleaved as the engine sends them.

    ``report`` is told what the audit found when a choice ends.
    """

    def __init__(self, request: RelayRequest, writer: AnswerWriter, report: Report = unreported) -> None:
        self._request = request
        self._writer = writer
        self._reader = OutputReader(request.model, request.options, parsed=request.chat is not None)
        self._choices: dict[int, RelayedChoice] = {}
        self._streams: dict[int, ChoiceStream] = {}
        self._count = request.n * len(request.prompts)
        # Of what the engine counts, only what the relay cannot know is read.
        self._reported: Usage | None = None
        self._metrics: Json | None = None
        self._report = report

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
        request = self._request
        counts = None
        if request.continuous_usage:
            parser = request.model.chat_parser
            counted = request.chat is not None and parser is not None and parser.counts_reasoning
            counts = usage(request.prompt_tokens, 0, 0 if counted else None)
        return self._writer.begin(counts)

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
        counts = self._all_counts() if self._request.include_usage else None
        return self._writer.end(counts, self._reported, self._metrics)

    def _advance(self, prompt: int, choice: StreamChoice) -> Iterator[Json]:
        if not 0 <= choice.index < self._request.n:
            raise EngineFailed(f"the engine sent a choice {choice.index} of {self._request.n}")
        place = prompt * self._request.n + choice.index
        relayed = self._choices.get(place)
        if relayed is None:
            with reading():
                self._streams[place] = self._open(prompt)
            relayed = self._choices[place] = RelayedChoice(self._request, prompt)
        stream, writer = self._streams[place], self._writer
        for release in relayed.receive(choice):
            try:
                output = stream.advance(release.choice, release.keep)
                if output.findings:
                    self._report(place, output.findings)
                counts = self._counts_of(stream, prompt, relayed.tokens) if self._request.continuous_usage else None
                written = writer.write(place, prompt, output, counts)
            except Exception as exc:
                raise unreadable(exc) from exc
            yield from written

    def _open(self, prompt: int) -> ChoiceStream:
        """A choice's stream before its first chunk."""
        request = self._request
        token_ids = request.prompts[prompt]["token_ids"]
        parser = request.model.chat_parser
        if request.chat is None or parser is None:
            return TextStream(self._reader, self._reader.seed(token_ids))
        # Late: only a deployment with a parser has vLLM's modules loaded.
        from core.choice.parsed import begin_parsed

        return begin_parsed(self._reader, parser, request.chat, token_ids)

    def _all_counts(self) -> Json:
        with reading():
            counted = [tokens for one in self._streams.values() if (tokens := one.reasoning_tokens()) is not None]
        return usage(self._request.prompt_tokens, self.tokens, sum(counted) if counted else None)

    def _counts_of(self, stream: ChoiceStream, prompt: int, tokens: int) -> Json:
        return usage(len(self._request.prompts[prompt]["token_ids"]), tokens, stream.reasoning_tokens())


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
