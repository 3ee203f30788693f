"""What the relay does before Lambda takes its snapshot: its own share of some requests, without an engine.

It loads what the first real request would load: templates, the encoder, parsers.
Nothing is sent and nothing kept.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from core.errors import RequestError
from core.model import Model
from core.protocol.engine import GenerateChunk
from core.relay.request import RelayRequest, open_chat, open_completion
from core.relay.stream import open_stream
from core.relay.whole import WholeAnswer
from handlers.warming import CHAT, TOOL

_CHUNK = {"request_id": "w", "choices": [{"index": 0, "token_ids": [0, 1], "finish_reason": "stop"}]}
_REQUESTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (open_chat, {**CHAT, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}),
    (open_chat, {**CHAT, "max_tokens": 2, "tools": [TOOL], "stop": ["x"]}),
    (open_completion, {"prompt": "Hello", "max_tokens": 2}),
)


def warm_relay(model: Model) -> None:
    """Open some requests and answer them with two tokens. What this deployment refuses is passed over."""
    for open_request, body in _REQUESTS:
        with suppress(RequestError):
            _answer(open_request(model, body))


def _answer(request: RelayRequest) -> None:
    chunk = GenerateChunk.model_validate(_CHUNK)
    whole = WholeAnswer(request)
    whole.add(0, chunk)
    with suppress(RequestError):
        whole.end()
    stream = open_stream(request)
    stream.begin()
    stream.advance(0, chunk)
    stream.end()
