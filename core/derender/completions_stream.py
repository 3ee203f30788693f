"""Streaming completions: one engine chunk and the carried state into one completion chunk."""

from __future__ import annotations

from typing import Any

from core.bounds import check_chunk, check_count, check_prompt_ids
from core.derender.output import carried_fields, options_of_completion, refuse_stop_strings, resolve_logprobs
from core.errors import BadRequest
from core.model import Model
from core.protocol import openai
from core.protocol.derender import DerenderCompletionStreamRequest, StreamState
from core.state.window import read_window, window_fields
from core.text.detokenizer import detokenize, seed_window
from core.text.logprobs import advance_context, completion_logprobs, end_of_text
from core.text.stop import drop_stop_token


def derender_completion_chunk(model: Model, request: DerenderCompletionStreamRequest) -> dict[str, Any]:
    """``{"chunk", "stream_state"}`` for one chunk of a completions stream.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    options = options_of_completion(request.completion_request)
    name = model.resolve_name(request.model)
    refuse_stop_strings(request.completion_request and request.completion_request.get("stop"))
    check_prompt_ids(request.prompt_token_ids, model.limits)
    source = request.generate_chunk
    if len(source.choices) > 1:
        raise BadRequest("derender_completion_stream expects at most one choice per chunk")
    check_chunk(source, request.stream_state, model.limits)
    check_count(request.prompt_tokens, "prompt_tokens")
    decode = options.decode_options(model.tokenizer.is_fast)
    state = request.stream_state
    try:
        if state is None:
            ids = request.prompt_token_ids if request.prompt_token_ids is not None else source.prompt_token_ids
            window = seed_window(model.tokenizer, ids, decode.skip_special)
            state = StreamState()
        else:
            window = read_window(state)
    except OverflowError as exc:
        raise BadRequest(str(exc)) from exc
    context, offset = state.logprob_context_token_ids, state.logprob_text_offset
    choices = []
    for choice in source.choices:
        ids = choice.token_ids or []
        text_ids, stop_reason = drop_stop_token(ids, choice.finish_reason, choice.stop_reason, options.stop, model.eos)
        text, window = detokenize(model.tokenizer, text_ids, window, decode)
        resolved = resolve_logprobs(model, choice.logprobs, options.top_limit, context)
        flat = completion_logprobs(resolved, choice.logprobs, offset) if resolved and choice.logprobs else None
        choices.append(
            {
                "index": choice.index,
                "text": text,
                "logprobs": flat,
                "finish_reason": choice.finish_reason,
                "stop_reason": stop_reason,
                "prompt_token_ids": source.prompt_token_ids if options.return_token_ids else None,
                "token_ids": choice.token_ids if options.return_token_ids else None,
                **carried_fields(choice),
            }
        )
        context, offset = advance_context(context, ids), end_of_text(flat, offset, text)
    chunk = openai.completion_chunk(source, name, choices, openai.chunk_usage(source.usage, request.prompt_tokens))
    new_state = {
        **state.model_dump(),
        **window_fields(window),
        "logprob_context_token_ids": context,
        "logprob_text_offset": offset,
    }
    return {"chunk": chunk, "stream_state": new_state}
