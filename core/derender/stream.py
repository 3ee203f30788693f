"""The streaming endpoints: one call with one or more engine chunks into as many OpenAI chunks.

Each is the list of its steps, in the order in which vLLM checks: the call with
its state, the request, the chunks, the stream, its outputs written, the next
state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.bounds import check_prompt_ids, check_stream_length
from core.choice.reader import OutputReader
from core.derender.chunks import ChatChunkWriter, CompletionChunkWriter, StreamHeader
from core.derender.options import CHAT_REQUEST_REQUIRED, options_of_chat, options_of_completion, refuse_stop_strings
from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.protocol.derender import DerenderChatStreamRequest, DerenderCompletionStreamRequest
from core.protocol.output_options import OutputOptions, chat_options
from core.state.binding import Binding, bind
from core.state.call import StreamCall, open_call
from core.state.carried import CarriedStream, carry
from core.state.carried_text import open_text

if TYPE_CHECKING:
    from core.parsing.chat_parser import ChatParser


def derender_chat_stream(model: Model, body: DerenderChatStreamRequest) -> Json:
    """``{"chunk", "stream_state"}`` for one chunk of a chat stream, ``{"chunks", ...}`` for several.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    call = open_call(model, body, body.chat_request, is_chat=True)
    parser = model.chat_parser
    opened = _plain_chat(model, call) if parser is None else _parsed_chat(model, parser, call)
    stream, options, binding = opened
    role_sent = call.state is not None and call.state.role_sent
    writer = ChatChunkWriter(_header(call, options, binding), role_sent=role_sent)
    return _response(body, *carry(call, binding, stream, writer, model.signer))


def derender_completion_stream(model: Model, body: DerenderCompletionStreamRequest) -> Json:
    """``{"chunk", "stream_state"}`` for one chunk of a completions stream, ``{"chunks", ...}`` for several.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    call = open_call(model, body, body.completion_request, is_chat=False)
    options = options_of_completion(call.request)
    refuse_stop_strings(call.request)
    check_prompt_ids(call.prompt_token_ids, model.limits)
    binding = bind(call, model.limits, is_chat=False)
    stream = open_text(OutputReader(model, options), call)
    text_offset = call.state.logprob_text_offset if call.state is not None else 0
    writer = CompletionChunkWriter(_header(call, options, binding), text_offset=text_offset)
    return _response(body, *carry(call, binding, stream, writer, model.signer))


def _plain_chat(model: Model, call: StreamCall) -> tuple[CarriedStream, OutputOptions, Binding]:
    options = options_of_chat(call.request)
    refuse_stop_strings(call.request)
    binding = bind(call, model.limits, is_chat=True)
    prior = len(call.state.output_token_ids) if call.state is not None else 0
    check_stream_length(call.chunks, len(call.prompt_token_ids or ()), prior, model.limits)
    return open_text(OutputReader(model, options), call), options, binding


def _parsed_chat(model: Model, parser: ChatParser, call: StreamCall) -> tuple[CarriedStream, OutputOptions, Binding]:
    # Late: only a deployment with a parser has vLLM's modules loaded.
    from core.state.carried_parsed import open_parsed, require_prompt

    refuse_stop_strings(call.request)
    if call.request is None:
        raise BadRequest(CHAT_REQUEST_REQUIRED)
    chat_request = parser.validate(call.request)
    require_prompt(call)
    binding = bind(call, model.limits, is_chat=True)
    options = chat_options(chat_request)
    reader = OutputReader(model, options, parsed=True)
    return open_parsed(model, parser, chat_request, reader, call), options, binding


def _header(call: StreamCall, options: OutputOptions, binding: Binding) -> StreamHeader:
    return StreamHeader(call.model_name, binding.request_id, call.prompt_tokens, options.return_token_ids)


def _response(
    body: DerenderChatStreamRequest | DerenderCompletionStreamRequest, chunks: list[Json], state: Json
) -> Json:
    if body.generate_chunks is not None:
        return {"chunks": chunks, "stream_state": state}
    return {"chunk": chunks[0], "stream_state": state}
