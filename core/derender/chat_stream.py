"""Opening the stream of a chat's choice: the steps that are the same in every dialect that is read as a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from core.bounds import check_stream_length
from core.choice.reader import OutputReader
from core.derender.options import CHAT_REQUEST_REQUIRED, options_of_chat, refuse_stop_strings
from core.errors import BadRequest
from core.model import Model
from core.protocol.output_options import OutputOptions
from core.state.binding import Binding, bind
from core.state.call import StreamCall
from core.state.carried import CarriedStream
from core.state.carried_text import open_text

if TYPE_CHECKING:
    from core.parsing.chat_parser import ChatParser
    from core.parsing.known_request import KnownRequest
    from core.protocol.derender import StreamBody
    from core.turns.streamed import StreamedTurn


class OpenChat(NamedTuple):
    """A choice's stream as its state left it, what its request says of the output, and what its chunks belong to."""

    stream: CarriedStream
    options: OutputOptions
    binding: Binding


def open_chat(model: Model, call: StreamCall, known: KnownRequest | None = None) -> OpenChat:
    """The stream of a call. ``known`` is its request, where it is not the call's own that is to be validated.

    It may be one of another dialect that vLLM's parsers read.

    Raises:
        BadRequest, SchemaError: in the order in which vLLM checks.
    """
    parser = model.chat_parser
    return _plain(model, call, known) if parser is None else _parsed(model, parser, call, known)


def open_turn(model: Model, body: StreamBody, call: StreamCall) -> StreamedTurn | None:
    """The turn of a conversation that a call's stream belongs to; None where nobody asked.

    Raises:
        BadRequest, SchemaError: the prompt's ``turn_state`` is missing, or does not match.
        InvalidState: what the stream carries of it does not add up.
    """
    carried = call.state.turn if call.state is not None else None
    if carried is None and (not body.return_turn_state or call.state is not None):
        return None
    # Late: few callers continue turns.
    from core.turns.streamed import begin_streamed, resume_streamed

    if carried is None:
        return begin_streamed(model, body.turn_state, call.prompt_token_ids)
    return resume_streamed(model, carried)


def _plain(model: Model, call: StreamCall, known: KnownRequest | None) -> OpenChat:
    options = options_of_chat(call.request) if known is None else known.options
    refuse_stop_strings(call.request)
    binding = bind(call, model.limits, is_chat=True)
    prior = len(call.state.output_token_ids) if call.state is not None else 0
    check_stream_length(call.chunks, len(call.prompt_token_ids or ()), prior, model.limits)
    stream = open_text(OutputReader(model, options), call, model.text_config("chat"), is_chat=True)
    return OpenChat(stream, options, binding)


def _parsed(model: Model, parser: ChatParser, call: StreamCall, known: KnownRequest | None) -> OpenChat:
    # Late: only a deployment with a parser has vLLM's modules loaded.
    from core.parsing.known_request import known_chat
    from core.state.carried_parsed import open_parsed, require_prompt

    refuse_stop_strings(call.request)
    if call.request is None:
        raise BadRequest(CHAT_REQUEST_REQUIRED)
    if known is None:
        known = known_chat(parser, call.request)
    require_prompt(call)
    binding = bind(call, model.limits, is_chat=True)
    reader = OutputReader(model, known.options, parsed=True)
    return OpenChat(open_parsed(model, parser, known, reader, call), known.options, binding)
