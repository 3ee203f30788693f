"""Opening a streamed answer: the request's dialect decides who writes it."""

from __future__ import annotations

from core.relay.answer import AnswerStream
from core.relay.chat import ChatWriter
from core.relay.completions import CompletionWriter
from core.relay.request import RelayRequest


def open_stream(request: RelayRequest) -> AnswerStream:
    """The answer to a request that streams, before its first chunk."""
    return AnswerStream(request, ChatWriter(request) if request.is_chat else CompletionWriter(request))
