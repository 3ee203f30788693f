"""Bodies of render requests as vLLM's own request types, so that what vLLM refuses is refused in its words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from core.bounds import check_odd_parts
from core.errors import SchemaError
from core.render.refusal import refusals
from core.render.schema_error import body_error, schema_error, shown_input


def decode_body(raw: bytes) -> Any:
    """The JSON value of a body.

    Raises:
        SchemaError: it is not JSON, or nested deeper than anything that a request holds (200 levels).
    """
    if not raw:
        raise _missing()
    try:
        return from_json(raw)
    except ValueError as exc:
        place, reason = 0, str(exc)
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        # The standard library's words: what a server that decodes with it says.
        place, reason = error.pos, error.msg
    except (ValueError, RecursionError):
        pass
    raise body_error("json_invalid", "JSON decode error", shown_input({}), place, reason)


def parse_chat(body: Any) -> Any:
    """A ``ChatCompletionRequest`` of vLLM.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return _validate(ChatCompletionRequest.model_validate, body)


def parse_completion(body: Any) -> Any:
    """A ``CompletionRequest`` of vLLM.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest

    return _validate(CompletionRequest.model_validate, body)


def parse_tokenize(body: Any) -> Any:
    """A ``TokenizeCompletionRequest`` or ``TokenizeChatRequest`` of vLLM, whichever the body is.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return _validate(_tokenize_form().validate_python, body)


@cache
def _tokenize_form() -> TypeAdapter[Any]:
    from vllm.entrypoints.serve.tokenize.protocol import TokenizeRequest

    return TypeAdapter(TokenizeRequest)


def _validate(validate: Any, body: Any) -> Any:
    if body is None:
        raise _missing()
    if isinstance(body, Mapping):
        check_odd_parts(body)
    value = _own_copy(body) if isinstance(body, Mapping) else body
    with refusals():
        try:
            # As FastAPI validates: it decides between a few wordings.
            return validate(value, from_attributes=True)
        except ValidationError as exc:
            raise schema_error(exc) from exc


def _missing() -> SchemaError:
    return body_error("missing", "Field required", shown_input(None))


def _own_copy(body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of what vLLM's validators tidy up in place: the body is the caller's."""
    value = dict(body)
    messages, transfer = value.get("messages"), value.get("kv_transfer_params")
    if isinstance(messages, list):
        value["messages"] = [dict(message) if isinstance(message, dict) else message for message in messages]
    if isinstance(transfer, dict):
        value["kv_transfer_params"] = dict(transfer)
    return value
