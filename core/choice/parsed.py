"""A choice that goes through vLLM's parser: reasoning, content and tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from core.choice.audit import SPLIT, Audit, Expected, GatheredAudit, audit_message, expected_of
from core.choice.output import ChoiceOutput, ToolCall
from core.choice.reader import OutputReader
from core.errors import BadRequest, RequestError
from core.json import JsonValue
from core.parsing.budget import ParserBudget
from core.parsing.chat_parser import ChatParser, OneShotParser
from core.parsing.live import LiveStream, start_stream
from core.protocol.engine import Choice, StreamChoice
from core.text.detokenizer import Window
from core.text.logprobs import advance_context
from core.upstream.parsers import as_chat, resolve_finish_reason

if TYPE_CHECKING:
    from core.choice.asked import Asked
    from core.choice.repair import Repair


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
    everything and gives the last output its findings. With ``repair`` the
    reading is repaired, otherwise it is vLLM's.
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
        repair: Repair | None = None,
    ) -> None:
        self._reader = reader
        self._prompt_token_ids = prompt_token_ids
        self.live = live
        self.context: Sequence[int] = context
        self.call_ids = list(call_ids)
        self.history = history
        self.audit = audit
        self.repair = repair

    def advance(self, choice: StreamChoice, keep: int | None = None) -> ChoiceOutput:
        """Read one chunk; see :class:`~core.choice.output.ChoiceStream`.

        Raises:
            BadRequest: its log probabilities cannot be read.
            Exception: a parser that meets anything at all may raise anything.
        """
        reader = self._reader
        ids = choice.token_ids or []
        text_ids, stop_reason = reader.text_ids(choice)
        output = ChoiceOutput(choice, stop_reason=stop_reason)
        text = ""
        if self.repair is not None:
            text = self._read_repaired(self.repair, output, text_ids, keep)
        elif ids or choice.finish_reason is not None:
            text = self._read(output, text_ids, keep)
        output.logprobs = reader.logprobs(choice, self.context)
        output.token_ids = reader.shown_ids(choice)
        self.context = advance_context(self.context, ids)
        if ids and self.history is not None:
            self.history.token_ids += ids
            self.history.chunk_lens.append(len(ids))
        if self.audit is not None:
            self.audit.see(text, output.content, output.reasoning, output.tool_calls)
            if output.finish_reason is not None:
                output.findings = self.audit.end(output.finish_reason)
                if output.findings and self._splits(choice.finish_reason):
                    output.findings += (SPLIT,)
                output.shown_findings = reader.shown_findings(output.findings)
        return output

    def _splits(self, finish_reason: str | None) -> bool:
        """Whether the whole output would say something else than its chunks did; asked where something else is wrong.

        A whole reading costs too much to be made of every answer.
        """
        if self.repair is not None or self.history is None or not isinstance(self.audit, GatheredAudit):
            return False
        live = self.live
        whole = live.parser.for_request(live.request, self._prompt_token_ids)
        try:
            return not self.audit.says(whole.parse(self.audit.text, self.history.token_ids, finish_reason))
        except BadRequest:
            return True

    def _read(self, output: ChoiceOutput, text_ids: Sequence[int], keep: int | None) -> str:
        """Fill an output with what vLLM says; the text that was decoded."""
        choice, live = output.source, self.live
        ids = choice.token_ids or []
        delta, output.finish_reason = live.step(text_ids, ids, choice.finish_reason, self._prompt_token_ids, keep)
        output.segments = live.take_segments()
        if delta is not None:
            output.content, output.reasoning = delta.content, delta.reasoning
            if delta.tool_calls:
                output.tool_calls = [self._named(call) for call in delta.tool_calls]
        return live.text if ids else ""

    def _read_repaired(self, repair: Repair, output: ChoiceOutput, text_ids: Sequence[int], keep: int | None) -> str:
        """Fill an output with what the repaired reading says; the text that was decoded."""
        choice, live = output.source, self.live
        texts = []
        for delta in live.tokens(text_ids, choice.token_ids or [], self._prompt_token_ids, keep):
            texts.append(live.text)
            repair.see(live.text, delta)
        repair.broken = live.broken
        if choice.finish_reason is not None:
            repair.end(live.finish(choice.finish_reason, self._prompt_token_ids), choice.finish_reason)
            output.finish_reason = resolve_finish_reason(choice.finish_reason, live.request, bool(repair.sent))
        output.content, output.reasoning, output.tool_calls = repair.take()
        self.call_ids += [call["id"] or "" for call in output.tool_calls]
        return "".join(texts)

    def replay(self, history: History) -> None:
        """Bring a fresh stream to where it was, one step for each earlier chunk; nothing of it goes out again."""
        ids = iter(history.token_ids)
        for length in history.chunk_lens:
            chunk = list(islice(ids, length))
            if self.repair is not None:
                choice = StreamChoice(index=0, token_ids=chunk)
                said = ChoiceOutput(choice)
                text = self._read_repaired(self.repair, said, chunk, None)
                if self.audit is not None:
                    self.audit.see(text, said.content, said.reasoning, said.tool_calls)
                continue
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
        if not self.live.parser.counts_reasoning:
            return None
        if self.repair is not None:
            return self.repair.reasoning_tokens
        if self.history is None:
            return None
        return int(self.live.processor.parser.count_reasoning_tokens(tuple(self.history.token_ids)))


def begin_parsed(
    reader: OutputReader, parser: ChatParser, chat_request: Any, prompt_token_ids: list[int] | None
) -> ParsedStream:
    """The stream of a choice before its first chunk, its parser fresh; repaired unless the deployment says otherwise.

    ``chat_request`` is vLLM's, validated; to a repaired reading one of another dialect is a chat.
    """
    repaired = parser.repairs(chat_request, by_default=True)
    chat_request = as_chat(chat_request) if repaired else chat_request
    live = start_stream(parser, chat_request, prompt_token_ids, reader.decode, repaired=repaired)
    audit = GatheredAudit(expected_of(chat_request)) if parser.audits else None
    repair = begin_repair(live, _asked(live, chat_request)) if repaired else None
    return ParsedStream(reader, live, prompt_token_ids, history=History(), audit=audit, repair=repair)


def _asked(live: LiveStream, chat_request: Any) -> Asked:
    """What the client asked for: the stream's own request may differ in what it hides."""
    from core.choice.asked import asked_of  # late: see below

    return asked_of(chat_request, keeps_calls=live.processor.keep_tool_calls)


def begin_repair(live: LiveStream, asked: Asked, saved: JsonValue = None) -> Repair:
    """The repaired reading of what a live stream says; ``saved`` is what it gave to save.

    Raises:
        ValueError: ``saved`` is nothing that was saved.
    """
    from core.choice.repair import Repair  # late: a deployment that answers as vLLM does starts without it

    repair = Repair(asked, saved)
    live.broken = repair.broken
    return repair


def read_repaired(
    reader: OutputReader,
    parser: ChatParser,
    chat_request: Any,
    prompt_token_ids: Sequence[int] | None,
    choice: Choice,
    window: Window,
    expected: Expected | None,
    budget: ParserBudget,
) -> ChoiceOutput:
    """Read such a choice in one piece as its stream is read, whatever its chunks.

    Raises:
        BadRequest: the parser cannot make sense of it, or it holds ids that no tokenizer can hold.
    """
    text, stop_reason = reader.whole_text(choice, window)
    chat_request = as_chat(chat_request)
    # A stream's parser that is told of no prompt, not even an empty one, waits for it and finds no calls.
    prompt = list(prompt_token_ids or ())
    live = start_stream(parser, chat_request, prompt, reader.decode, budget, repaired=True)
    audit = None if expected is None else GatheredAudit(expected)
    stream = ParsedStream(reader, live, prompt, audit=audit, repair=begin_repair(live, _asked(live, chat_request)))
    end = StreamChoice.model_construct(**choice.__dict__)
    end.finish_reason = end.finish_reason or "stop"
    try:
        output = stream.advance(end, len(text))
    except RequestError:
        raise
    except Exception as exc:
        # Parsers read model output, which can be anything; whatever they make of it is no fault of the server.
        raise BadRequest(str(exc) or type(exc).__name__) from exc
    output.source, output.stop_reason = choice, stop_reason
    output.reasoning_tokens = stream.reasoning_tokens()
    return output


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
