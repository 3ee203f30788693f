"""A parsed stream, carried by a checkpoint of its parser, or by a replay of all earlier chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from core.bounds import check_stream_length
from core.choice.audit import Audit, RunningAudit
from core.choice.output import ChoiceOutput
from core.choice.parsed import History, ParsedStream, begin_repair
from core.choice.reader import OutputReader
from core.errors import BadRequest, InvalidState, RequestError
from core.json import Json, JsonValue
from core.model import Model
from core.parsing.budget import ParserBudget
from core.parsing.chat_parser import ChatParser
from core.parsing.checkpoint import CheckpointRefused, read_prompt
from core.parsing.known_request import KnownRequest, Shaping
from core.parsing.live import LiveStream, start_stream
from core.parsing.waiting import keep_waiting, take_waiting
from core.protocol.derender import VLLM_FIELDS, StreamState
from core.protocol.engine import StreamChoice
from core.protocol.json_text import json_bytes
from core.state.call import StreamCall
from core.state.checkpoint import Lengths, Written, read_checkpoint, write_checkpoint
from core.state.context import context_with_prompt
from core.state.fingerprint import check_fingerprint, digest, with_slice
from core.state.origin import check_chat_state
from core.state.window import read_window, window_fields
from core.upstream.parsers import counts_as_it_reads
from core.upstream.version import slice_version

MAX_KEPT_BYTES = 256 * 1024
PROMPT_IDS_REQUIRED = (
    "prompt_token_ids is required when a tool or reasoning parser is configured. Without it parse_delta cannot "
    "tell whether the prompt left reasoning open (e.g. a chat template that pre-opens <think>) and would "
    "misclassify reasoning content as plain content."
)


def require_prompt(call: StreamCall) -> None:
    """Refuse a call from which the parser cannot learn how the prompt ends.

    Raises:
        BadRequest: neither its prompt ids nor a checkpoint are there.
    """
    if call.prompt_token_ids is None and (call.state is None or call.state.checkpoint is None):
        raise BadRequest(PROMPT_IDS_REQUIRED)


def open_parsed(
    model: Model, parser: ChatParser, known: KnownRequest, reader: OutputReader, call: StreamCall
) -> CarriedParsed:
    """The stream as the state left it, ready for the call's chunks; ``known`` is the call's request.

    Raises:
        BadRequest: the state does not add up, the stream gets longer than the context, or its replay takes too long.
    """
    assert call.request is not None
    state = call.state or StreamState()
    _require_whole(state)
    if known.shaping is None:
        known.shaping = _shaping(model, parser, known.chat_request, call.request)
    config = known.shaping.config
    budget = parser.budget()
    check_fingerprint(state.config, config)
    if state.config is None:
        check_chat_state(state)
    checkpointed = state.checkpoint is not None
    replays = not checkpointed and model.options.stream_state == "replay"
    # The checkpoint holds what the prompt decided; ids that are sent again are ignored.
    prompt_token_ids = None if checkpointed else call.prompt_token_ids
    history = None if checkpointed else History(list(state.output_token_ids), list(state.output_chunk_lens))
    try:
        audit: Audit | None = None
        repaired: JsonValue = None
        repairs = parser.repairs(known.chat_request, by_default=False)
        if state.checkpoint is not None:
            live, lengths, audit, repaired = _reopen(model, known, reader, state, state.checkpoint, budget)
        else:
            request = known.as_chat if repairs else known.chat_request
            live = start_stream(parser, request, prompt_token_ids, reader.decode, budget, repaired=repairs)
            lengths = Lengths(len(prompt_token_ids or ()), len(state.output_token_ids))
            audit = RunningAudit(known.expected) if parser.audits else None
        check_stream_length(call.chunks, lengths.prompt, lengths.output, model.limits)
        stream = ParsedStream(
            reader,
            live,
            prompt_token_ids,
            context=state.logprob_context_token_ids,
            call_ids=state.last_tool_call_ids,
            history=history,
            audit=audit,
            repair=begin_repair(live, known.asked(live.processor.keep_tool_calls), repaired) if repairs else None,
        )
        if history is not None:
            signed = model.signer is not None and state.signature is not None
            with nullcontext() if signed else budget.replay(model.options.replay_budget):
                stream.replay(history)
            if prompt_token_ids is not None and not replays and not _has_output(call, state):
                # Nothing will be parsed: what the prompt decides must be in the checkpoint all the same.
                read_prompt(live.processor, prompt_token_ids, parser.layouts)
    except RequestError:
        raise
    except Exception as exc:
        raise InvalidState("derender failed") from exc
    # Replay finds the same; what was told to the client counts.
    live.processor.tools_streamed = state.tools_streamed
    return CarriedParsed(stream, call, state, known, config, lengths, prompt_token_ids, replays)


def _reopen(
    model: Model, known: KnownRequest, reader: OutputReader, state: StreamState, checkpoint: str, budget: ParserBudget
) -> tuple[LiveStream, Lengths, Audit | None, JsonValue]:
    """The stream where a checkpoint was written: its parser as it waits here, or a fresh one that is restored."""
    parser = model.chat_parser
    assert parser is not None
    assert known.shaping is not None
    window = read_window(state)
    waiting = take_waiting(parser, known.digest, checkpoint)
    if waiting is not None:
        live = LiveStream(parser, waiting.processor, window, reader.decode, budget)
        return live, Lengths(waiting.prompt, waiting.output), waiting.audit, waiting.repair
    repairs = parser.repairs(known.chat_request, by_default=False)
    request = known.as_chat if repairs else known.chat_request
    processor = parser.processor(request, known.shaping.prototype, repaired=repairs)
    live = LiveStream(parser, processor, window, reader.decode, budget)
    lengths, audited, repaired = read_checkpoint(live, checkpoint, model.limits.max_model_len)
    return live, lengths, RunningAudit(known.expected, audited) if parser.audits else None, repaired


def _require_whole(state: StreamState) -> None:
    """Refuse a state that lost its checkpoint on the way: the parser would begin anew with every chunk.

    A client that reads states into vLLM's own model drops the fields that it
    does not know. What is left has a decode window, which the states of
    replayed streams never have, neither vLLM's nor ours.

    Raises:
        InvalidState: names the setting by which states need no field of ours.
    """
    if state.prev_tokens and state.checkpoint is None and not state.output_token_ids:
        raise InvalidState(
            "checkpoint is missing: the state is not of a parsed stream, or lost fields on its way. Send it back with "
            "all of its fields; for clients that keep vLLM's fields only, set stream_state to replay "
            "(DERENDER_STREAM_STATE, --stream-state)",
            "stream_state.checkpoint",
        )


def _shaping(model: Model, parser: ChatParser, chat_request: Any, request: Mapping[str, Any]) -> Shaping:
    """All that shapes the output of a stream, by its fingerprint."""
    shaping = {
        "deployment": model.stream_config,
        "template": parser.template_kwargs(chat_request),
        "tools": request.get("tools"),
        "tool_choice": request.get("tool_choice"),
    }
    text = json_bytes(shaping, sort_keys=True)
    config = with_slice(digest(text), slice_version())
    # What is kept of a request between calls must stay small, whatever clients send.
    return Shaping(config, config if len(text) <= MAX_KEPT_BYTES else None)


def _has_output(call: StreamCall, state: StreamState) -> bool:
    """Whether the stream has any tokens, with those of this call."""
    return bool(state.output_token_ids) or any(choice.token_ids for chunk in call.chunks for choice in chunk.choices)


class CarriedParsed:
    """See :class:`~core.state.carried.CarriedStream`.

    ``lengths`` are those at the beginning of the call; ``replays`` says that
    the next call is to replay, as vLLM's do.
    """

    def __init__(
        self,
        stream: ParsedStream,
        call: StreamCall,
        state: StreamState,
        known: KnownRequest,
        config: str,
        lengths: Lengths,
        prompt_token_ids: list[int] | None,
        replays: bool,
    ) -> None:
        self._stream = stream
        self._call = call
        self._state = state
        self._known = known
        self._config = config
        self._lengths = lengths
        self._prompt_token_ids = prompt_token_ids
        self._replays = replays
        self._ended = False
        self._written: Written | None = None
        # Asked only of a checkpointed state, where an empty context means that there were none so far.
        self._logprobs_seen = bool(state.logprob_context_token_ids) and state.checkpoint is not None

    def advance(self, choice: StreamChoice) -> ChoiceOutput:
        try:
            output = self._stream.advance(choice)
        except RequestError:
            raise
        except Exception as exc:
            # A parser fed with a client's state and a model's output may raise anything.
            raise InvalidState("derender failed") from exc
        self._logprobs_seen = self._logprobs_seen or choice.logprobs is not None
        self._ended = self._ended or output.finish_reason is not None
        self._lengths = Lengths(self._lengths.prompt, self._lengths.output + len(choice.token_ids or ()))
        return output

    @property
    def counts_ids(self) -> bool:
        live = self._stream.live
        if self._stream.repair is not None:
            return False  # it counts as it reads
        return live.parser.counts_reasoning and not counts_as_it_reads(live.processor.parser)

    def count_reasoning(self, token_ids: Sequence[int], length: int) -> int:
        live = self._stream.live
        if not live.parser.counts_reasoning:
            return 0
        if self._stream.repair is not None:
            return self._stream.repair.reasoning_tokens
        # A parser that counts as it reads looks at their number alone.
        ids = token_ids if self.counts_ids else [0] * length
        return int(live.processor.parser.count_reasoning_tokens(tuple(ids)))

    def save(self, written: Json) -> Json:
        stream = self._stream
        fields = {
            "logprob_context_token_ids": stream.context,
            "tools_streamed": stream.live.processor.tools_streamed,
            "last_tool_call_ids": stream.call_ids,
            "config": self._config,
            **written,
        }
        context = self._call.packed_context
        checkpoint = self._checkpoint()
        if checkpoint is None:
            if context is not None and self._prompt_token_ids is not None:
                context = context_with_prompt(context, self._prompt_token_ids)
            assert stream.history is not None
            return {
                **self._state.model_dump(include=VLLM_FIELDS),
                **fields,
                "output_token_ids": stream.history.token_ids,
                "output_chunk_lens": stream.history.chunk_lens,
                **({"context": context} if context is not None else {}),
            }
        if not self._logprobs_seen:
            # Read only to repair logprobs, and an engine sends them with every chunk or with none.
            fields["logprob_context_token_ids"] = []
        # A checkpointed state goes back and forth with every token: what is at its default stays out.
        kept = {**fields, **window_fields(stream.live.window), "context": context}
        return {**{name: value for name, value in kept.items() if value}, "checkpoint": checkpoint}

    def _checkpoint(self) -> str | None:
        """The parser as text; None where the state must carry a replay.

        Raises:
            InvalidState: a stream that was carried by checkpoints cannot be any more.
        """
        if self._replays:
            return None
        try:
            audit = None if self._stream.audit is None else self._stream.audit.save()
            repair = None if self._stream.repair is None else self._stream.repair.save()
            self._written = write_checkpoint(self._stream.live, self._lengths, audit, repair)
        except CheckpointRefused as exc:
            if self._state.checkpoint is None:
                return None
            raise InvalidState(f"the parser cannot be carried on from here: {exc}") from exc
        except Exception as exc:
            # Each value of a state fits its kind; together they may still be what no parser ever holds.
            raise InvalidState("derender failed") from exc
        return self._written.text

    def leave(self) -> None:
        budget = self._stream.live.budget
        if budget is not None and budget.was_long():
            return  # the next call restores it, and is told that it is long
        if self._written is not None and not self._ended:
            text, repaired, moment = self._written
            moment.settle()
            keep_waiting(self._stream.live, self._known.digest, text, *self._lengths, self._stream.audit, repaired)
