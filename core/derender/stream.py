"""The streaming endpoints: one call with one or more engine chunks into as many OpenAI chunks."""

from __future__ import annotations

from typing import Any

from core.bounds import check_prompt_ids, check_stream_length
from core.derender.chat import CHAT_REQUEST_REQUIRED
from core.derender.output import options_of_chat, options_of_completion
from core.derender.plain_stream import CompletionStream, PlainChatStream
from core.derender.stream_call import answer, check_chunks, open_call, refuse_stop_strings
from core.errors import BadRequest
from core.model import Model
from core.protocol.derender import DerenderChatStreamRequest, DerenderCompletionStreamRequest


def derender_chat_stream(model: Model, body: DerenderChatStreamRequest) -> dict[str, Any]:
    """``{"chunk", "stream_state"}`` for one chunk of a chat stream, ``{"chunks", ...}`` for several.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    parser = model.chat_parser
    call = open_call(model, body, body.chat_request, is_chat=True)
    many = body.generate_chunks is not None
    if parser is not None:
        refuse_stop_strings(call.request)
        if call.request is None:
            raise BadRequest(CHAT_REQUEST_REQUIRED)
        # Only a deployment with a parser has vLLM's modules loaded.
        from core.derender.parsed_stream import open_parsed_stream

        return answer(model, call, open_parsed_stream(model, parser, call), many)
    options = options_of_chat(call.request)
    refuse_stop_strings(call.request)
    check_chunks(model, call, is_chat=True)
    prior = len(call.state.output_token_ids) if call.state is not None else 0
    check_stream_length(call.chunks, len(call.prompt_token_ids or ()), prior, model.limits)
    return answer(model, call, PlainChatStream(model, call, options), many)


def derender_completion_stream(model: Model, body: DerenderCompletionStreamRequest) -> dict[str, Any]:
    """``{"chunk", "stream_state"}`` for one chunk of a completions stream, ``{"chunks", ...}`` for several.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    call = open_call(model, body, body.completion_request, is_chat=False)
    options = options_of_completion(call.request)
    refuse_stop_strings(call.request)
    check_prompt_ids(call.prompt_token_ids, model.limits)
    check_chunks(model, call, is_chat=False)
    return answer(model, call, CompletionStream(model, call, options), body.generate_chunks is not None)
