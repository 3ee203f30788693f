"""What a request says about its outputs: read directly where it is plain, by vLLM's own types where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import BadRequest
from core.protocol.output_options import (
    NO_REQUEST,
    OutputOptions,
    chat_options,
    completion_options,
    plain_chat_options,
    plain_completion_options,
)
from core.upstream.requests import validate_chat, validate_completion

CHAT_REQUEST_REQUIRED = (
    "chat_request is required when a tool or reasoning parser is configured because plain detokenization "
    "would leak raw parser markup into content."
)
STOP_STRINGS_IN_STREAM = (
    "stop strings are not supported by streaming derender because text already sent cannot be cut. "
    "Use non-streaming derender or output_mode=text on /inference/v1/generate which holds stop strings back."
)


def options_of_chat(request: Mapping[str, Any] | None) -> OutputOptions:
    """The output options of a chat request that no parser needs.

    Raises:
        SchemaError, BadRequest: the request is not valid.
    """
    if request is None:
        return NO_REQUEST
    return plain_chat_options(request) or chat_options(validate_chat(request, "body.chat_request"))


def options_of_completion(request: Mapping[str, Any] | None) -> OutputOptions:
    """The output options of a completion request.

    Raises:
        SchemaError, BadRequest: the request is not valid.
    """
    if request is None:
        return NO_REQUEST
    plain = plain_completion_options(request)
    return plain or completion_options(validate_completion(request, "body.completion_request"))


def refuse_stop_strings(request: Mapping[str, Any] | None) -> None:
    """Refuse a streaming request with stop strings, as vLLM does: text that was sent cannot be taken back.

    Raises:
        BadRequest: says what to do instead.
    """
    if request is not None and request.get("stop"):
        raise BadRequest(STOP_STRINGS_IN_STREAM)
