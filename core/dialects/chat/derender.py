"""Derendering chats; the steps are in ``core.derender``."""

from __future__ import annotations

from core.derender.chat import derender_chat as derender
from core.derender.stream import derender_chat_stream as derender_stream
from core.protocol.derender import DerenderChatRequest, DerenderChatStreamRequest, OneShotBody, StreamBody

__all__ = ["bodies", "derender", "derender_stream"]


def bodies() -> tuple[type[OneShotBody], type[StreamBody]]:
    return DerenderChatRequest, DerenderChatStreamRequest
