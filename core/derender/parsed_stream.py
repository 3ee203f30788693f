"""Streaming chat through a parser: reasoning, content and tool-call deltas from engine chunks and a carried state."""

from __future__ import annotations

from typing import Any

from core.bounds import check_stream_length
from core.derender.output import carried_fields, resolve_logprobs
from core.derender.stream_call import StreamCall, check_chunks
from core.errors import BadRequest, InvalidState, RequestError
from core.json import Json
from core.model import Model
from core.parsing.chat_parser import ChatParser
from core.parsing.checkpoint import CheckpointRefused
from core.parsing.live import LiveStream, replay_stream, start_stream
from core.protocol import openai
from core.protocol.derender import VLLM_FIELDS, StreamState
from core.protocol.engine import GenerateChunk, StreamChoice
from core.protocol.json_text import json_bytes
from core.protocol.output_options import OutputOptions, chat_options
from core.state.checkpoint import Lengths, read_checkpoint, write_checkpoint
from core.state.context import context_with_prompt
from core.state.fingerprint import check_fingerprint, digest
from core.state.window import read_window, window_fields
from core.text.logprobs import advance_context
from core.text.stop import drop_stop_token

MAX_KEPT_BYTES = 256 * 1024
PROMPT_IDS_REQUIRED = (
    "prompt_token_ids is required when a tool or reasoning parser is configured. Without it parse_delta cannot "
    "tell whether the prompt left reasoning open (e.g. a chat template that pre-opens <think>) and would "
    "misclassify reasoning content as plain content."
)


def open_parsed_stream(model: Model, parser: ChatParser, call: StreamCall) -> ParsedStream:
    """The stream as the state left it, ready for the call's chunks.

    Raises:
        BadRequest, SchemaError: the request is not valid, or the state does not add up.
    """
    assert call.request is not None
    chat_request = parser.validate(call.request)
    state = call.state or StreamState()
    if call.prompt_token_ids is None and state.checkpoint is None:
        raise BadRequest(PROMPT_IDS_REQUIRED)
    check_chunks(model, call, is_chat=True)
    options = chat_options(chat_request)
    shaping = {
        "deployment": model.stream_config,
        "template": parser.template_kwargs(chat_request),
        "tools": call.request.get("tools"),
        "tool_choice": call.request.get("tool_choice"),
    }
    shaping_text = json_bytes(shaping, sort_keys=True)
    config = digest(shaping_text)
    check_fingerprint(state.config, config)
    decode = options.decode_options(model.tokenizer.is_fast, keep_special=True)
    try:
        if state.checkpoint is not None:
            # What is kept of a request between calls must stay small, whatever clients send.
            key = config if len(shaping_text) <= MAX_KEPT_BYTES else None
            live = LiveStream(parser, parser.processor(chat_request, key), read_window(state), decode)
            lengths = read_checkpoint(live, state.checkpoint, model.limits.max_model_len)
            # The checkpoint holds what the prompt decided; ids that are sent again are ignored.
            call.prompt_token_ids = None
        else:
            live = start_stream(parser, chat_request, call.prompt_token_ids, decode)
            lengths = Lengths(len(call.prompt_token_ids or ()), len(state.output_token_ids))
        check_stream_length(call.chunks, lengths.prompt, lengths.output, model.limits)
        if state.checkpoint is None:
            replay_stream(live, state.output_token_ids, state.output_chunk_lens, call.prompt_token_ids)
    except RequestError:
        raise
    except Exception as exc:
        raise InvalidState("derender failed") from exc
    # Replay finds the same; what was told to the client counts.
    live.processor.tools_streamed = state.tools_streamed
    return ParsedStream(model, call, live, state, lengths, options, config)


def begin_parsed_stream(model: Model, parser: ChatParser, chat_request: Any, call: StreamCall) -> ParsedStream:
    """A stream before its first chunk that is never handed over: its parser lives until its last one.

    ``chat_request`` is vLLM's, validated.
    """
    options = chat_options(chat_request)
    decode = options.decode_options(model.tokenizer.is_fast, keep_special=True)
    live = start_stream(parser, chat_request, call.prompt_token_ids, decode)
    lengths = Lengths(len(call.prompt_token_ids or ()), 0)
    return ParsedStream(model, call, live, StreamState(), lengths, options, config="")


class ParsedStream:
    """One choice's output through vLLM's parser."""

    def __init__(
        self,
        model: Model,
        call: StreamCall,
        live: LiveStream,
        state: StreamState,
        lengths: Lengths,
        options: OutputOptions,
        config: str,
    ) -> None:
        self._model = model
        self._call = call
        self._live = live
        self._state = state
        self._options = options
        self._config = config
        self._lengths = lengths
        self._role_sent = state.role_sent
        self._context = state.logprob_context_token_ids
        self._logprobs_seen = bool(self._context) and state.checkpoint is not None
        self._call_ids = list(state.last_tool_call_ids)
        self._output_ids = list(state.output_token_ids)
        self._chunk_lens = list(state.output_chunk_lens)
        # Logprobs and ids would give hidden reasoning away.
        self._hidden = live.processor.hide_metadata

    def advance(self, chunk: GenerateChunk) -> Json:
        """The chat chunk of one engine chunk.

        Raises:
            InvalidState: the parser cannot go on; a parser fed with a client's
                state and a model's output may raise anything.
        """
        try:
            choices = [self.step(choice) for choice in chunk.choices]
        except RequestError:
            raise
        except Exception as exc:
            raise InvalidState("derender failed") from exc
        return openai.chat_chunk(
            chunk,
            self._call.model_name,
            choices,
            openai.chunk_usage(chunk.usage, self._call.prompt_tokens),
            prompt_token_ids=chunk.prompt_token_ids if self._options.return_token_ids else None,
        )

    def reasoning_tokens(self) -> int:
        """How many tokens so far are reasoning, as the parser counts them; not for checkpointed streams."""
        return int(self._live.processor.parser.count_reasoning_tokens(tuple(self._output_ids)))

    def step(self, choice: StreamChoice, keep: int | None = None) -> Json:
        ids = choice.token_ids or []
        text_ids, stop_reason = drop_stop_token(
            ids, choice.finish_reason, choice.stop_reason, self._options.stop, self._model.eos
        )
        message, finish_reason = None, None
        if ids or choice.finish_reason is not None:
            message, finish_reason = self._live.step(
                text_ids, ids, choice.finish_reason, self._call.prompt_token_ids, keep
            )
        logprobs = None
        if not self._hidden:
            logprobs = resolve_logprobs(self._model, choice.logprobs, self._options.top_limit, self._context)
        self._context = advance_context(self._context, ids)
        self._logprobs_seen = self._logprobs_seen or choice.logprobs is not None
        self._lengths = Lengths(self._lengths.prompt, self._lengths.output + len(ids))
        if ids and self._state.checkpoint is None:
            self._output_ids += ids
            self._chunk_lens.append(len(ids))
        return {
            "index": choice.index,
            "delta": self._delta(message),
            "logprobs": logprobs,
            "finish_reason": finish_reason,
            "stop_reason": stop_reason,
            "token_ids": choice.token_ids if self._options.return_token_ids and not self._hidden else None,
            **carried_fields(choice),
        }

    def _delta(self, message: Any) -> Json:
        """The delta as it goes out, its tool-call ids being what they were first (a replay draws new ones)."""
        body: Json = openai.delta(None, None) if message is None else message.model_dump()
        for call in body.get("tool_calls") or ():
            if call.get("id") is None:
                continue
            if call["index"] < len(self._call_ids):
                call["id"] = self._call_ids[call["index"]]
            else:
                self._call_ids.append(call["id"])
        if not self._role_sent:
            body["role"] = "assistant"
            self._role_sent = True
        return body

    def fields(self) -> Json:
        common = {
            "role_sent": self._role_sent,
            "logprob_context_token_ids": self._context,
            "tools_streamed": self._live.processor.tools_streamed,
            "last_tool_call_ids": self._call_ids,
            "config": self._config,
        }
        checkpoint = self._checkpoint()
        if checkpoint is not None:
            if not self._logprobs_seen:
                # Read only to repair logprobs, and an engine sends them with every chunk or with none.
                common["logprob_context_token_ids"] = []
            # A checkpointed state goes back and forth with every token: what is at its default stays out.
            kept = {**common, **window_fields(self._live.window)}
            return {**{name: value for name, value in kept.items() if value}, "checkpoint": checkpoint}
        if self._call.packed_context is not None and self._call.prompt_token_ids is not None:
            self._call.packed_context = context_with_prompt(self._call.packed_context, self._call.prompt_token_ids)
        return {
            **self._state.model_dump(include=VLLM_FIELDS),
            **common,
            "output_token_ids": self._output_ids,
            "output_chunk_lens": self._chunk_lens,
        }

    def _checkpoint(self) -> str | None:
        """The parser as text; None where the state must carry a replay.

        Raises:
            InvalidState: a stream that was carried by checkpoints cannot be any more.
        """
        if self._model.options.stream_state == "replay" and self._state.checkpoint is None:
            return None
        try:
            return write_checkpoint(self._live, self._lengths, self._call.prompt_token_ids)
        except CheckpointRefused as exc:
            if self._state.checkpoint is None:
                return None
            raise InvalidState(f"the parser cannot be carried on from here: {exc}") from exc
