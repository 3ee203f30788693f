"""A choice that goes through vLLM's parser: reasoning, content and tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

from core.choice.audit import Audit, Expected, GatheredAudit, audit_message, expected_of
from core.choice.output import ChoiceOutput, ToolCall
from core.choice.reader import OutputReader
from core.parsing.chat_parser import ChatParser, OneShotParser
from core.parsing.live import LiveStream, start_stream
from core.protocol.engine import Choice, StreamChoice
from core.text.detokenizer import Window
from core.text.logprobs import advance_context


@dataclass
class History:
    """All output so far, and how it was cut into chunks: what a replay needs, and what counts reasoning."""

    token_ids: list[int] = field(default_factory=list)
    chunk_lens: list[int] = field(default_factory=list)


class ParsedStream:
    """The stream of such a choice.

    ``prompt_token_ids`` are read with the first chunk; None where they were
    read before. ``context`` are the last sampled ids, ``call_ids`` the ids of
    the tool calls so far: what a call was named first is its name. ``history``
    is None where nothing of the output needs to be kept. ``audit`` looks at
    everything and gives the last output its findings.
    """

    def __init__(
        self,
        reader: OutputReader,
        live: LiveStream,
        prompt_token_ids: list[int] | None,
        *,
        context: Sequence[int] = (),
        call_ids: Sequence[str] = (),
        history: History | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._reader = reader
        self._prompt_token_ids = prompt_token_ids
        self.live = live
        self.context: Sequence[int] = context
        self.call_ids = list(call_ids)
        self.history = history
        self.audit = audit

    def advance(self, choice: StreamChoice, keep: int | None = None) -> ChoiceOutput:
        """Read one chunk; see :class:`~core.choice.output.ChoiceStream`.

        Raises:
            BadRequest: its log probabilities cannot be read.
            Exception: a parser that meets anything at all may raise anything.
        """
        reader = self._reader
        ids = choice.token_ids or []
        text_ids, stop_reason = reader.text_ids(choice)
        delta, finish_reason = None, None
        if ids or choice.finish_reason is not None:
            delta, finish_reason = self.live.step(text_ids, ids, choice.finish_reason, self._prompt_token_ids, keep)
        logprobs = reader.logprobs(choice, self.context)
        self.context = advance_context(self.context, ids)
        if ids and self.history is not None:
            self.history.token_ids += ids
            self.history.chunk_lens.append(len(ids))
        output = ChoiceOutput(
            choice,
            finish_reason=finish_reason,
            stop_reason=stop_reason,
            logprobs=logprobs,
            token_ids=reader.shown_ids(choice),
        )
        if ids or choice.finish_reason is not None:
            output.segments = self.live.take_segments()
        if delta is not None:
            output.content, output.reasoning = delta.content, delta.reasoning
            if delta.tool_calls:
                output.tool_calls = [self._named(call) for call in delta.tool_calls]
        if self.audit is not None:
            self.audit.see(self.live.text if ids else "", output.content, output.reasoning, output.tool_calls)
            if finish_reason is not None:
                output.findings = self.audit.end(finish_reason)
                output.shown_findings = reader.shown_findings(output.findings)
        return output

    def replay(self, history: History) -> None:
        """Bring a fresh stream to where it was, one step for each earlier chunk; nothing of it goes out again."""
        ids = iter(history.token_ids)
        for length in history.chunk_lens:
            chunk = list(islice(ids, length))
            delta, _ = self.live.step(chunk, chunk, None, self._prompt_token_ids)
            self.live.take_segments()
            if self.audit is not None:
                calls = [] if delta is None else [cast(ToolCall, call.model_dump()) for call in delta.tool_calls]
                content, reasoning = (None, None) if delta is None else (delta.content, delta.reasoning)
                self.audit.see(self.live.text, content, reasoning, calls)

    def _named(self, delta: Any) -> ToolCall:
        """A part of a tool call, its id being what it was first: a replay draws new ones."""
        call = cast(ToolCall, delta.model_dump())
        if call["id"] is not None:
            if call["index"] < len(self.call_ids):
                call["id"] = self.call_ids[call["index"]]
            else:
                self.call_ids.append(call["id"])
        return call

    def reasoning_tokens(self) -> int | None:
        """How many of the tokens so far are reasoning; None without a reasoning parser, or a whole ``history``."""
        if self.history is None or not self.live.parser.counts_reasoning:
            return None
        return int(self.live.processor.parser.count_reasoning_tokens(tuple(self.history.token_ids)))


def begin_parsed(
    reader: OutputReader, parser: ChatParser, chat_request: Any, prompt_token_ids: list[int]
) -> ParsedStream:
    """The stream of a choice before its first chunk, its parser fresh.

    ``chat_request`` is vLLM's, validated.
    """
    live = start_stream(parser, chat_request, prompt_token_ids, reader.decode)
    audit = GatheredAudit(expected_of(chat_request)) if parser.audits else None
    return ParsedStream(reader, live, prompt_token_ids, history=History(), audit=audit)


def read_parsed(
    reader: OutputReader, parser: OneShotParser, choice: Choice, window: Window, expected: Expected | None = None
) -> ChoiceOutput:
    """Read such a choice in one piece, and audit it where ``expected`` says by what.

    Raises:
        BadRequest: the parser cannot make sense of it, or it holds ids that no tokenizer can hold.
    """
    logprobs = reader.logprobs(choice)
    text, stop_reason = reader.whole_text(choice, window)
    message = parser.parse(text, choice.token_ids or (), choice.finish_reason)
    findings = () if expected is None else audit_message(text, message, expected)
    return ChoiceOutput(
        choice,
        content=message.content,
        reasoning=message.reasoning,
        tool_calls=cast("list[ToolCall]", message.tool_calls),
        finish_reason=message.finish_reason,
        stop_reason=stop_reason,
        logprobs=logprobs,
        token_ids=reader.shown_ids(choice),
        reasoning_tokens=message.reasoning_tokens,
        findings=findings,
        shown_findings=None if expected is None else reader.shown_findings(findings),
        segments=message.segments,
    )
