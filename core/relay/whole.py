"""An answer in one piece: what the engine streams, put together and derendered at the end.

The last step is one-shot derender's own (``core.derender``), so that both say
the same. Stop strings are looked for while the tokens come in: where one
is complete, the choice ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from core.bounds import check_responses
from core.choice.output import Report, unreported
from core.json import Json
from core.protocol.engine import Choice, GenerateChunk, GenerateResponse, LogProbs, StreamChoice, Usage
from core.relay.answer import reading
from core.relay.choice import RelayedChoice
from core.relay.errors import EngineFailed
from core.relay.request import RelayRequest

WriteAnswer = Callable[[RelayRequest, Sequence[GenerateResponse], Usage | None, Report], Json]
"""The ``answer`` of a dialect's relaying door."""


@dataclass(frozen=True)
class Collected:
    """Complete answers of the engine to a request. It can be pickled, but for the model."""

    request: RelayRequest
    responses: Sequence[GenerateResponse]
    reported: Usage | None

    def end(self, write: WriteAnswer, report: Report) -> Json:
        """The answer, written by ``write``; ``report`` is told what the audit found.

        Raises:
            UnreadableOutput: a parser cannot read the output.
        """
        with reading():
            check_responses(self.responses, self.request.model.limits)
            return write(self.request, self.responses, self.reported, report)


class WholeAnswer:
    """The answer to a request that does not stream; ``write`` writes it in the request's dialect.

    ``report`` is told what the audit found in the end.
    """

    def __init__(self, request: RelayRequest, write: WriteAnswer, report: Report = unreported) -> None:
        self._request = request
        self._write = write
        self._responses = [GenerateResponse(choices=[]) for _ in request.prompts]
        self._choices: list[dict[int, Choice]] = [{} for _ in request.prompts]
        self._relayed: list[dict[int, RelayedChoice]] = [{} for _ in request.prompts]
        self._reported: Usage | None = None
        self._report = report

    @property
    def finished(self) -> bool:
        """Every choice is complete."""
        return all(
            len(choices) == self._request.n and all(choice.finished for choice in choices.values())
            for choices in self._relayed
        )

    @property
    def stopped(self) -> bool:
        """A stop string ended a choice: the engine may still be at work on it."""
        return any(choice.stopped for choices in self._relayed for choice in choices.values())

    @property
    def tokens(self) -> int:
        """Tokens of all choices so far."""
        return sum(choice.tokens for choices in self._relayed for choice in choices.values())

    def add(self, prompt: int, chunk: GenerateChunk) -> None:
        """Take one chunk of the engine's answer to a prompt.

        Raises:
            EngineFailed: it is not what the engine was asked for.
        """
        response = self._responses[prompt]
        if chunk.usage is not None:
            self._reported = self._reported or chunk.usage
        if chunk.metrics is not None:
            response.metrics = chunk.metrics
        for choice in chunk.choices:
            self._add(prompt, choice)

    def add_response(self, prompt: int, response: GenerateResponse) -> None:
        """Take the engine's whole answer to a prompt.

        Raises:
            EngineFailed: it is not what the engine was asked for.
        """
        self._reported = self._reported or response.usage
        self._responses[prompt] = response
        for choice in response.choices:
            self._add(prompt, StreamChoice.model_construct(**choice.__dict__))

    def _add(self, prompt: int, choice: StreamChoice) -> None:
        if not 0 <= choice.index < self._request.n:
            raise EngineFailed(f"the engine sent a choice {choice.index} of {self._request.n}")
        relayed = self._relayed[prompt].setdefault(choice.index, RelayedChoice(self._request, prompt))
        whole = self._choices[prompt].setdefault(choice.index, Choice(index=choice.index, token_ids=[]))
        for release in relayed.receive(choice):
            _append(whole, release.choice)

    def end(self) -> Json:
        """The answer, written.

        Raises:
            EngineFailed: a choice is not complete.
            UnreadableOutput: a parser cannot read the output.
        """
        return self.collected().end(self._write, self._report)

    def collected(self) -> Collected:
        """What is to be written.

        Raises:
            EngineFailed: a choice is not complete.
        """
        if not self.finished:
            raise EngineFailed("the engine's answer ended before it was complete")
        for response, choices, prompt in zip(self._responses, self._choices, self._request.prompts, strict=True):
            if not all(choice.token_ids for choice in choices.values()):
                raise EngineFailed("the engine ended the request before its first token")
            response.choices = [choices[index] for index in sorted(choices)]
            # A parser must see how the prompt ends, and ids that nobody asked for are not shown.
            response.prompt_token_ids = prompt["token_ids"]
            response.request_id = self._request.response_id
        return Collected(replace(self._request, stop_search=None), self._responses, self._reported)


def _append(whole: Choice, part: StreamChoice) -> None:
    assert whole.token_ids is not None
    whole.token_ids += part.token_ids or []
    if part.logprobs is not None:
        if whole.logprobs is None or whole.logprobs.content is None:
            whole.logprobs = LogProbs(content=[])
        assert whole.logprobs.content is not None
        whole.logprobs.content += part.logprobs.content or []
    whole.finish_reason = part.finish_reason
    whole.stop_reason = part.stop_reason
    whole.routed_experts = part.routed_experts or whole.routed_experts
    whole.weight_versions = part.weight_versions or whole.weight_versions
