"""Derendering completions; the steps are in ``core.derender``."""

from __future__ import annotations

from core.derender.completions import derender_completion as derender
from core.derender.stream import derender_completion_stream as derender_stream
from core.protocol.derender import DerenderCompletionRequest, DerenderCompletionStreamRequest, OneShotBody, StreamBody

__all__ = ["bodies", "derender", "derender_stream"]


def bodies() -> tuple[type[OneShotBody], type[StreamBody]]:
    return DerenderCompletionRequest, DerenderCompletionStreamRequest
