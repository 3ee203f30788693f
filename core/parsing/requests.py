"""Requests as vLLM's own types, so that what vLLM refuses is refused in its words.

vLLM's protocol modules cost a good part of a cold start: they are imported on
first use. A deployment with parsers uses them from the start; one without
needs them only for requests that are not plain (``core.protocol.output_options``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from core.bounds import check_odd_parts
from core.errors import BadRequest
from core.protocol.derender import schema_error


def validate_chat_request(value: Mapping[str, Any], prefix: str = "body.chat_request") -> Any:
    """A ``ChatCompletionRequest`` of vLLM.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return _validate(ChatCompletionRequest, value, prefix)


def validate_completion_request(value: Mapping[str, Any], prefix: str = "body.completion_request") -> Any:
    """A ``CompletionRequest`` of vLLM.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest

    return _validate(CompletionRequest, value, prefix)


def _validate(kind: Any, value: Mapping[str, Any], prefix: str) -> Any:
    from vllm.exceptions import VLLMValidationError

    check_odd_parts(value)
    try:
        # vLLM's before-validators may change their input: give them a copy, the caller's mapping is shared.
        return kind.model_validate(dict(value))
    except ValidationError as exc:
        raise schema_error(exc, prefix) from exc
    except VLLMValidationError as exc:
        raise BadRequest(str(exc), exc.parameter) from exc
    except Exception as exc:
        # vLLM's validators read parts of a request before its form is checked, and trip over what is not there.
        raise BadRequest(str(exc) if isinstance(exc, ValueError) else f"the request is malformed: {exc!r}") from exc
