"""Streaming chat without a parser: one engine chunk and the carried state into one chat chunk."""

from __future__ import annotations

from typing import Any

from core.bounds import check_chunk, check_count, check_stream_length
from core.derender.chat import CHAT_REQUEST_REQUIRED
from core.derender.output import carried_fields, options_of_chat, refuse_stop_strings, resolve_logprobs
from core.errors import BadRequest
from core.model import Model
from core.protocol import openai
from core.protocol.derender import DerenderChatStreamRequest, StreamState
from core.state.window import read_window, window_fields
from core.text.detokenizer import detokenize, seed_window
from core.text.logprobs import advance_context
from core.text.stop import drop_stop_token

Answer = dict[str, Any]


def derender_chat_chunk(model: Model, request: DerenderChatStreamRequest) -> Answer:
    """``{"chunk", "stream_state"}`` for one chunk of a chat stream.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    name = model.resolve_name(request.model)
    chat_request = request.chat_request
    parser = model.chat_parser
    if parser is None:
        options = options_of_chat(chat_request)
        refuse_stop_strings(chat_request and chat_request.get("stop"))
    elif chat_request is not None:
        refuse_stop_strings(chat_request.get("stop"))
    else:
        raise BadRequest(CHAT_REQUEST_REQUIRED)
    check_one_choice(request, "derender_chat_stream")
    check_stream_length(request.generate_chunk, request.stream_state, request.prompt_token_ids, model.limits)
    check_chunk(request.generate_chunk, request.stream_state, model.limits)
    check_count(request.prompt_tokens, "prompt_tokens")
    if parser is not None and chat_request is not None:
        from core.derender.parsed_stream import derender_parsed_chunk

        return derender_parsed_chunk(model, parser, request, chat_request, name)
    decode = options.decode_options(model.tokenizer.is_fast)
    source = request.generate_chunk
    state = request.stream_state
    try:
        if state is None:
            # Only the first chunk is seeded: later ones carry the window.
            ids = request.prompt_token_ids if request.prompt_token_ids is not None else source.prompt_token_ids
            window = seed_window(model.tokenizer, ids, decode.skip_special)
            state = StreamState()
        else:
            window = read_window(state)
    except OverflowError as exc:
        raise BadRequest(str(exc)) from exc
    role_sent, context = state.role_sent, state.logprob_context_token_ids
    choices = []
    for choice in source.choices:
        ids = choice.token_ids or []
        text_ids, stop_reason = drop_stop_token(ids, choice.finish_reason, choice.stop_reason, options.stop, model.eos)
        text, window = detokenize(model.tokenizer, text_ids, window, decode)
        choices.append(
            {
                "index": choice.index,
                "delta": openai.delta(None if role_sent else "assistant", text or None),
                "logprobs": resolve_logprobs(model, choice.logprobs, options.top_limit, context),
                "finish_reason": choice.finish_reason,
                "stop_reason": stop_reason,
                "token_ids": choice.token_ids if options.return_token_ids else None,
                **carried_fields(choice),
            }
        )
        role_sent, context = True, advance_context(context, ids)
    chunk = openai.chat_chunk(
        source,
        name,
        choices,
        openai.chunk_usage(source.usage, request.prompt_tokens),
        prompt_token_ids=source.prompt_token_ids if options.return_token_ids else None,
    )
    new_state = {
        **state.model_dump(),
        **window_fields(window),
        "role_sent": role_sent,
        "logprob_context_token_ids": context,
    }
    return {"chunk": chunk, "stream_state": new_state}


def check_one_choice(request: Any, where: str) -> None:
    """A state belongs to one choice, so a chunk may hold at most one.

    Raises:
        BadRequest: it holds more.
    """
    count = len(request.generate_chunk.choices)
    if count > 1:
        raise BadRequest(f"{where} expects at most one choice per chunk (got {count}).")
