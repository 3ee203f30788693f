"""What the relay does before Lambda takes its snapshot: its own share of some requests, without an engine.

It loads what the first real request would load: templates, the encoder, parsers.
Nothing is sent and nothing kept.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from core.dialects.chat import CHAT
from core.dialects.completions import COMPLETIONS
from core.dialects.dialect import Dialect, Relaying
from core.errors import RequestError
from core.model import Model
from core.protocol.engine import GenerateChunk
from core.relay.answer import AnswerStream
from core.relay.request import RelayRequest
from core.relay.whole import WholeAnswer
from handlers.warming import CHAT as CHAT_BODY
from handlers.warming import TOOL

_CHUNK = {"request_id": "w", "choices": [{"index": 0, "token_ids": [0, 1], "finish_reason": "stop"}]}
_REQUESTS: tuple[tuple[Dialect, dict[str, Any]], ...] = (
    (CHAT, {**CHAT_BODY, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}),
    (CHAT, {**CHAT_BODY, "max_tokens": 2, "tools": [TOOL], "stop": ["x"]}),
    (COMPLETIONS, {"prompt": "Hello", "max_tokens": 2}),
)


def warm_relay(model: Model) -> None:
    """Open some requests and answer them with two tokens. What this deployment refuses is passed over."""
    for dialect, body in _REQUESTS:
        with suppress(RequestError):
            _answer(dialect.relaying(), dialect.relaying().open_request(model, body))


def _answer(door: Relaying, request: RelayRequest) -> None:
    chunk = GenerateChunk.model_validate(_CHUNK)
    whole = WholeAnswer(request, door.answer)
    whole.add(0, chunk)
    with suppress(RequestError):
        whole.end()
    stream = AnswerStream(request, door.writer(request))
    stream.begin()
    stream.advance(0, chunk)
    stream.end()
