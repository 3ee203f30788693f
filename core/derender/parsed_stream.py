"""Streaming chat through a parser: one engine chunk and the carried state into one chat chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.derender.output import carried_fields, resolve_logprobs
from core.errors import BadRequest, InvalidState, RequestError
from core.model import Model
from core.parsing.chat_parser import ChatParser
from core.parsing.live import LiveStream, replay_stream, start_stream
from core.protocol import openai
from core.protocol.derender import DerenderChatStreamRequest, StreamState
from core.protocol.engine import StreamChoice
from core.protocol.output_options import OutputOptions, chat_options
from core.text.logprobs import advance_context
from core.text.stop import drop_stop_token

PROMPT_IDS_REQUIRED = (
    "prompt_token_ids is required when a tool or reasoning parser is configured. Without it parse_delta cannot "
    "tell whether the prompt left reasoning open (e.g. a chat template that pre-opens <think>) and would "
    "misclassify reasoning content as plain content."
)


def derender_parsed_chunk(
    model: Model, parser: ChatParser, request: DerenderChatStreamRequest, chat_request: Mapping[str, Any], name: str
) -> dict[str, Any]:
    """``{"chunk", "stream_state"}`` for one chunk; bounds were checked by the caller.

    Raises:
        BadRequest, SchemaError: the request is not valid, or the state does not add up.
    """
    validated = parser.validate(chat_request)
    if request.prompt_token_ids is None:
        raise BadRequest(PROMPT_IDS_REQUIRED)
    options = chat_options(validated)
    state = request.stream_state or StreamState()
    source = request.generate_chunk
    choices: list[dict[str, Any]] = []
    if source.choices:
        try:
            live = _live(model, parser, validated, request, state, options)
            choice, state = _advance(model, live, source.choices[0], state, options, request.prompt_token_ids)
        except RequestError:
            raise
        except Exception as exc:
            # A parser that is fed a client's state and a model's output may raise anything.
            raise InvalidState("derender failed") from exc
        choices.append(choice)
    chunk = openai.chat_chunk(
        source,
        name,
        choices,
        openai.chunk_usage(source.usage, request.prompt_tokens),
        prompt_token_ids=source.prompt_token_ids if options.return_token_ids else None,
    )
    return {"chunk": chunk, "stream_state": state.model_dump()}


def _live(
    model: Model,
    parser: ChatParser,
    chat_request: Any,
    request: DerenderChatStreamRequest,
    state: StreamState,
    options: OutputOptions,
) -> LiveStream:
    decode = options.decode_options(model.tokenizer.is_fast, keep_special=True)
    live = start_stream(parser, chat_request, request.prompt_token_ids, decode)
    replay_stream(live, state.output_token_ids, state.output_chunk_lens, request.prompt_token_ids)
    # Replay finds the same; what was told to the client counts.
    live.processor.tools_streamed = state.tools_streamed
    return live


def _advance(
    model: Model,
    live: LiveStream,
    choice: StreamChoice,
    state: StreamState,
    options: OutputOptions,
    prompt_token_ids: list[int] | None,
) -> tuple[dict[str, Any], StreamState]:
    ids = choice.token_ids or []
    text_ids, stop_reason = drop_stop_token(ids, choice.finish_reason, choice.stop_reason, options.stop, model.eos)
    message, finish_reason = None, None
    if ids or choice.finish_reason is not None:
        message, finish_reason = live.step(text_ids, ids, choice.finish_reason, prompt_token_ids)
    # Hidden reasoning must not come back through its logprobs or token ids.
    hidden = live.processor.hide_metadata
    logprobs = (
        None if hidden else resolve_logprobs(model, choice.logprobs, options.top_limit, state.logprob_context_token_ids)
    )
    delta, call_ids = _delta(message, state)
    body = {
        "index": choice.index,
        "delta": delta,
        "logprobs": logprobs,
        "finish_reason": finish_reason,
        "stop_reason": stop_reason,
        "token_ids": choice.token_ids if options.return_token_ids and not hidden else None,
        **carried_fields(choice),
    }
    new_state = state.model_copy(
        update={
            "role_sent": True,
            "output_token_ids": [*state.output_token_ids, *ids],
            "output_chunk_lens": [*state.output_chunk_lens, len(ids)] if ids else state.output_chunk_lens,
            "tools_streamed": live.processor.tools_streamed,
            "last_tool_call_ids": call_ids,
            "logprob_context_token_ids": advance_context(state.logprob_context_token_ids, ids),
        }
    )
    return body, new_state


def _delta(message: Any, state: StreamState) -> tuple[dict[str, Any], list[str]]:
    """The delta as it goes out, with tool-call ids that stay what they were first, and those ids."""
    call_ids = list(state.last_tool_call_ids)
    body: dict[str, Any] = openai.delta(None, None) if message is None else message.model_dump()
    for call in body.get("tool_calls") or ():
        if call.get("id") is None:
            continue
        if call["index"] < len(call_ids):
            call["id"] = call_ids[call["index"]]  # a replay draws new ids
        else:
            call_ids.append(call["id"])
    if not state.role_sent:
        body["role"] = "assistant"
    return body, call_ids
