"""What a choice says: the structured form between reading an output and writing it in a dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NotRequired, Protocol, TypedDict

from core.json import Json
from core.protocol.engine import Choice, StreamChoice

if TYPE_CHECKING:
    # A plain start loads no more than it uses.
    from core.upstream.reading import Segment


class CallFunction(TypedDict):
    """The function of a tool call; in a stream either may be missing from a part, as None."""

    name: str | None
    arguments: str | None


class ToolCall(TypedDict):
    """A tool call, or in a stream one part of it: ``index`` says of which."""

    id: str | None
    type: str | None
    index: NotRequired[int]
    function: CallFunction | None


@dataclass(slots=True)
class ChoiceOutput:
    """What a choice says, in one chunk or in all.

    ``source`` is the engine's choice that it was read from, for what is only
    passed on. ``content`` is visible text, ``logprobs`` have chat's form;
    both, ``reasoning`` and ``token_ids`` are None where there is nothing to
    show. In a stream ``finish_reason`` is None until the last output.
    ``reasoning_tokens`` is there only where a whole output was counted,
    ``findings`` (``core.choice.audit``) only with the end of an output, and
    ``shown_findings`` where the answer is to show them. ``segments`` are what a
    gpt-oss model said to whom, where the dialect asks for it.
    """

    source: Choice | StreamChoice
    content: str | None = None
    reasoning: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: Json | None = None
    token_ids: list[int] | None = None
    reasoning_tokens: int | None = None
    findings: tuple[str, ...] = ()
    shown_findings: list[str] | None = None
    segments: Sequence[Segment] | None = None

    @property
    def weight_versions(self) -> list[Json] | None:
        """Which weights sampled the tokens: the engine's word. vLLM's coupled endpoints show it, its derender
        does not."""
        spans = self.source.weight_versions
        return None if spans is None else [asdict(span) for span in spans]


class ChoiceStream(Protocol):
    """One choice's output on its way."""

    def advance(self, choice: StreamChoice, keep: int | None = None) -> ChoiceOutput:
        """Read one chunk of the choice.

        ``keep`` is how many characters of its text count, where a stop string
        cuts it (None: all).
        """
        ...

    def reasoning_tokens(self) -> int | None:
        """How many of the tokens so far are reasoning; None where nothing can tell. Changes nothing."""
        ...


Report = Callable[[int, tuple[str, ...]], object]
"""Is told of a choice, by its index, the kinds of what is wrong with it (``core.choice.audit``)."""


def unreported(index: int, findings: tuple[str, ...]) -> None:
    """For callers that do not ask."""


def report_findings(outputs: Iterable[ChoiceOutput], report: Report) -> None:
    """Tell what the audit found of the choices that ended."""
    for output in outputs:
        if output.findings:
            report(output.source.index, output.findings)
