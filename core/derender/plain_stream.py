"""Streams that are only detokenized: chat without a parser, and completions."""

from __future__ import annotations

from core.derender.output import carried_fields, resolve_logprobs
from core.derender.stream_call import StreamCall
from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.protocol import openai
from core.protocol.derender import VLLM_FIELDS, StreamState
from core.protocol.engine import GenerateChunk, StreamChoice
from core.protocol.output_options import OutputOptions
from core.state.window import read_window, window_fields
from core.text.detokenizer import detokenize, seed_window
from core.text.logprobs import advance_context, completion_logprobs, end_of_text
from core.text.stop import StopReason, drop_stop_token


class PlainStream:
    """What both have in common: the decode window and the logprob context.

    Raises:
        BadRequest: the state or the prompt ids cannot be used.
    """

    def __init__(self, model: Model, call: StreamCall, options: OutputOptions) -> None:
        self._model = model
        self._call = call
        self._options = options
        self._decode = options.decode_options(model.tokenizer.is_fast)
        self._state = call.state or StreamState()
        try:
            if call.state is None:
                # Only the first chunk is seeded: later ones carry the window.
                ids = call.prompt_token_ids
                if ids is None and call.chunks:
                    ids = call.chunks[0].prompt_token_ids
                self._window = seed_window(model.tokenizer, ids, self._decode.skip_special)
            else:
                self._window = read_window(call.state)
        except OverflowError as exc:
            raise BadRequest(str(exc)) from exc
        self._context = self._state.logprob_context_token_ids

    def _text(self, choice: StreamChoice, keep: int | None) -> tuple[str, StopReason]:
        ids, stop_reason = drop_stop_token(
            choice.token_ids or [], choice.finish_reason, choice.stop_reason, self._options.stop, self._model.eos
        )
        text, self._window = detokenize(self._model.tokenizer, ids, self._window, self._decode)
        return text[:keep], stop_reason

    def _logprobs(self, choice: StreamChoice) -> Json | None:
        resolved = resolve_logprobs(self._model, choice.logprobs, self._options.top_limit, self._context)
        self._context = advance_context(self._context, choice.token_ids or [])
        return resolved

    def _shown_ids(self, choice: StreamChoice) -> list[int] | None:
        return choice.token_ids if self._options.return_token_ids else None

    def _usage(self, chunk: GenerateChunk) -> Json | None:
        return openai.chunk_usage(chunk.usage, self._call.prompt_tokens)

    def fields(self) -> Json:
        return {
            **self._state.model_dump(include=VLLM_FIELDS),
            **window_fields(self._window),
            "logprob_context_token_ids": self._context,
        }


class PlainChatStream(PlainStream):
    """A chat stream without a parser: the role once, then content."""

    def __init__(self, model: Model, call: StreamCall, options: OutputOptions) -> None:
        super().__init__(model, call, options)
        self._role_sent = self._state.role_sent

    def advance(self, chunk: GenerateChunk) -> Json:
        choices = [self.step(choice) for choice in chunk.choices]
        ids = chunk.prompt_token_ids if self._options.return_token_ids else None
        return openai.chat_chunk(chunk, self._call.model_name, choices, self._usage(chunk), prompt_token_ids=ids)

    def step(self, choice: StreamChoice, keep: int | None = None) -> Json:
        text, stop_reason = self._text(choice, keep)
        role = None if self._role_sent else "assistant"
        self._role_sent = True
        return {
            "index": choice.index,
            "delta": openai.delta(role, text or None),
            "logprobs": self._logprobs(choice),
            "finish_reason": choice.finish_reason,
            "stop_reason": stop_reason,
            "token_ids": self._shown_ids(choice),
            **carried_fields(choice),
        }

    def fields(self) -> Json:
        return {**super().fields(), "role_sent": self._role_sent}


class CompletionStream(PlainStream):
    """A completions stream: text, and flat logprobs with offsets into the whole text."""

    def __init__(self, model: Model, call: StreamCall, options: OutputOptions) -> None:
        super().__init__(model, call, options)
        self._offset = self._state.logprob_text_offset

    def advance(self, chunk: GenerateChunk) -> Json:
        prompt_ids = chunk.prompt_token_ids if self._options.return_token_ids else None
        choices = [{**self.step(choice), "prompt_token_ids": prompt_ids} for choice in chunk.choices]
        return openai.completion_chunk(chunk, self._call.model_name, choices, self._usage(chunk))

    def step(self, choice: StreamChoice, keep: int | None = None) -> Json:
        text, stop_reason = self._text(choice, keep)
        resolved = self._logprobs(choice)
        flat = completion_logprobs(resolved, choice.logprobs, self._offset) if resolved and choice.logprobs else None
        self._offset = end_of_text(flat, self._offset, text)
        return {
            "index": choice.index,
            "text": text,
            "logprobs": flat,
            "finish_reason": choice.finish_reason,
            "stop_reason": stop_reason,
            "prompt_token_ids": None,
            "token_ids": self._shown_ids(choice),
            **carried_fields(choice),
        }

    def fields(self) -> Json:
        return {**super().fields(), "logprob_text_offset": self._offset}
