"""Rendering Responses requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from core.dialects.responses.errors import InvalidRequest
from core.dialects.responses.prompt import render_response
from core.dialects.responses.request import door
from core.json import Json
from core.model import Model
from core.render.chat import take_turn
from core.render.media import AS_ASKED, ImageHandling
from core.upstream.refusals import refusals
from core.upstream.responses import responses_type, validate_responses


def render(model: Model, body: Any, request_id: str | None = None, images: ImageHandling = AS_ASKED) -> Json:
    """The ``GenerateRequest`` of a Responses request; see :class:`~core.dialects.dialect.Rendering`.

    Its id is the request's own, or drawn: vLLM reads no header here.
    """
    body, turn = take_turn(model, body, door)
    request = validate_responses(body)
    model.resolve_name(request.model)
    if request.previous_response_id is not None:
        raise InvalidRequest(
            "previous_response_id is not supported by the stateless render endpoint.", "previous_response_id"
        )
    with refusals():
        written = render_response(model, request, images, turn).body
    if turn is not None:
        written.update(turn.result.fields())
    return written


def forms() -> Sequence[type[BaseModel]]:
    return (responses_type(),)
