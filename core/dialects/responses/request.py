"""A Responses request on the way back: validated once for a stream, and what of it is carried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.dialects.responses.answer import response_options
from core.json import Json
from core.model import Model
from core.parsing.known_request import KnownRequest, known_request
from core.protocol.output_options import OutputOptions
from core.upstream.responses import validate_responses

if TYPE_CHECKING:
    from core.turns.door import Door

PLACE = "body.responses_request"
# The conversation; and what says whose it is.
_LEFT_OUT = ("input", "previous_input_messages", "stream")
_ASSISTANT = ("message", "reasoning")


def door() -> Door:
    """What the code of turns knows of Responses."""
    from core.dialects.responses.turns import RESPONSES  # late: few requests continue

    return RESPONSES


def read_request(model: Model, request: Mapping[str, Any]) -> KnownRequest:
    """A request's JSON as vLLM's ``ResponsesRequest``, validated where it is not known from the chunk before.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """

    def validate() -> Any:
        return validate_responses(dict(request), PLACE)

    def options(validated: Any) -> OutputOptions:
        return response_options(model, validated)

    if model.chat_parser is None:
        return KnownRequest(validate(), b"", options)
    return known_request(model.chat_parser, "responses", dict(request), validate, options)


def reduce_response(request: Mapping[str, Any]) -> Json:
    """A request without its conversation, of which what shapes the output is left: earlier calls, and an open end."""
    kept = {name: value for name, value in request.items() if name not in _LEFT_OUT}
    given = request.get("input")
    items = given if isinstance(given, list) else []
    calls = [_CALL for item in items if isinstance(item, Mapping) and item.get("type") == "function_call"]
    last = items[-1] if items else None
    return {**kept, "input": [*calls, *_open_end(last)] or "-"}


_CALL = {"type": "function_call", "call_id": "", "name": "", "arguments": "{}"}


def _open_end(item: Any) -> list[Json]:
    """The last item of a conversation that the answer goes on with."""
    if not isinstance(item, Mapping) or item.get("status") not in ("in_progress", "incomplete"):
        return []
    if item.get("type", "message") not in _ASSISTANT:
        return []
    content = [{"type": "output_text", "text": "", "annotations": []}]
    return [{"type": "message", "id": "", "role": "assistant", "status": item["status"], "content": content}]
