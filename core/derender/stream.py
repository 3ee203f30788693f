"""The streaming endpoints: one call with one or more engine chunks into as many OpenAI chunks.

Each is the list of its steps, in the order in which vLLM checks: the call with
its state, the request, the chunks, the stream, its outputs written, the next
state.
"""

from __future__ import annotations

from core.bounds import check_prompt_ids
from core.choice.output import Report, unreported
from core.choice.reader import OutputReader
from core.derender.chat_stream import open_chat, open_turn
from core.derender.chunks import ChatChunkWriter, CompletionChunkWriter, StreamHeader
from core.derender.options import options_of_completion, refuse_stop_strings
from core.errors import InvalidState
from core.json import Json
from core.model import Model
from core.protocol.derender import DerenderChatStreamRequest, DerenderCompletionStreamRequest
from core.protocol.output_options import OutputOptions
from core.state.binding import Binding, bind
from core.state.call import StreamCall, open_call
from core.state.carried import carry
from core.state.carried_text import open_text
from core.state.context import reduce_chat, reduce_completion


def derender_chat_stream(model: Model, body: DerenderChatStreamRequest, report: Report = unreported) -> Json:
    """``{"chunk", "stream_state"}`` for one chunk of a chat stream, ``{"chunks", ...}`` for several.

    ``report`` is told what the audit found when the choice ends.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    call = open_call(model, body, body.chat_request, reduce_chat)
    _refuse_other_dialect(call)
    stream, options, binding = open_chat(model, call)
    role_sent = call.state is not None and call.state.role_sent
    writer = ChatChunkWriter(_header(model, call, options, binding), role_sent=role_sent)
    turn = open_turn(model, body, call)
    answer = _response(body, *carry(call, binding, stream, writer, model.signer, report, turn))
    return answer if turn is None else {**answer, **turn.answer()}


def derender_completion_stream(
    model: Model, body: DerenderCompletionStreamRequest, report: Report = unreported
) -> Json:
    """``{"chunk", "stream_state"}`` for one chunk of a completions stream, ``{"chunks", ...}`` for several.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    call = open_call(model, body, body.completion_request, reduce_completion)
    _refuse_other_dialect(call)
    options = options_of_completion(call.request)
    refuse_stop_strings(call.request)
    check_prompt_ids(call.prompt_token_ids, model.limits)
    binding = bind(call, model.limits, is_chat=False)
    stream = open_text(OutputReader(model, options), call, model.text_config("completions"), is_chat=False)
    text_offset = call.state.logprob_text_offset if call.state is not None else 0
    writer = CompletionChunkWriter(_header(model, call, options, binding), text_offset=text_offset)
    return _response(body, *carry(call, binding, stream, writer, model.signer, report))


def _refuse_other_dialect(call: StreamCall) -> None:
    if call.state is not None and call.state.written is not None:
        raise InvalidState("it is the state of a stream in another dialect", "stream_state.written")


def _header(model: Model, call: StreamCall, options: OutputOptions, binding: Binding) -> StreamHeader:
    lean = model.options.chunk_form == "openai"
    return StreamHeader(call.model_name, binding.request_id, call.prompt_tokens, options.return_token_ids, lean)


def _response(
    body: DerenderChatStreamRequest | DerenderCompletionStreamRequest, chunks: list[Json], state: Json
) -> Json:
    if body.generate_chunks is not None:
        return {"chunks": chunks, "stream_state": state}
    return {"chunk": chunks[0], "stream_state": state}
