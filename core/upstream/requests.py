"""Requests as vLLM's own types, so that what vLLM refuses is refused in its words.

vLLM's protocol modules cost a good part of a cold start, so each is imported
on first use. A deployment that parses or renders uses them from its first
request on; one that only decodes needs them only for requests that are not
plain (``core.protocol.output_options``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from core.bounds import check_odd_parts
from core.errors import ConfigurationError
from core.protocol.schema_error import BODY, missing_body, schema_error
from core.upstream.contract import has
from core.upstream.refusals import refusals
from core.upstream.version import vllm_version


def validate_chat(body: Any, place: str = BODY) -> Any:
    """A ``ChatCompletionRequest`` of vLLM. ``body`` stays as it is; ``place`` is where it stands in the call's body.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return validate_body(chat_type().model_validate, body, place)


def validate_completion(body: Any, place: str = BODY) -> Any:
    """A ``CompletionRequest`` of vLLM; see :func:`validate_chat`.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return validate_body(completion_type().model_validate, body, place)


def validate_tokenize(body: Any) -> Any:
    """A ``TokenizeCompletionRequest`` or ``TokenizeChatRequest`` of vLLM, whichever the body is.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return validate_body(_tokenize_form().validate_python, body, BODY)


def chat_type() -> type[BaseModel]:
    """vLLM's ``ChatCompletionRequest``."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # late: see above

    request_type: type[BaseModel] = ChatCompletionRequest
    return request_type


def completion_type() -> type[BaseModel]:
    """vLLM's ``CompletionRequest``."""
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest  # late: see above

    request_type: type[BaseModel] = CompletionRequest
    return request_type


def tokenize_types() -> tuple[type[BaseModel], ...]:
    """The types of a body of ``/tokenize``: of a text or ids, and of a conversation."""
    # Late: see above.
    from vllm.entrypoints.serve.tokenize.protocol import TokenizeChatRequest, TokenizeCompletionRequest

    return TokenizeCompletionRequest, TokenizeChatRequest


def forced_tool(request: Any) -> str | None:
    """The tool that an answer has to call: "" is any, None that none has to be called.

    ``request`` is vLLM's, a chat's or one of Responses.
    """
    choice = request.tool_choice
    if "required" in (choice, getattr(choice, "mode", None)):
        return ""
    name: str | None = getattr(getattr(choice, "function", choice), "name", None)
    return name


def answer_format(request: Any) -> str:
    """The type of the format that an answer has to have, "text" for none; ``request`` as above."""
    chat = "response_format" in type(request).model_fields
    form = request.response_format if chat else getattr(request.text, "format", None)
    return getattr(form, "type", "text") or "text"


def chat_params(request: Any, template: str | None, content_format: str, effort_map: Mapping[str, str]) -> Any:
    """vLLM's ``ChatParams`` of a request; ``effort_map`` says what the template calls the efforts of a chat."""
    if not effort_map or not issubclass(type(request), chat_type()):
        return request.build_chat_params(template, content_format)
    return request.build_chat_params(template, content_format, reasoning_effort_map=dict(effort_map))


def check_effort_map(effort_map: Mapping[str, Any]) -> None:
    """Refuse what is no map of reasoning efforts.

    Raises:
        ConfigurationError: an effort is none of vLLM's, its name for the template is no text, or this version of
            vLLM has no such map.
    """
    if not effort_map:
        return
    if not has(vllm_version(), "build_chat_params.reasoning_effort_map"):
        raise ConfigurationError(f"reasoning_effort_map: vLLM {vllm_version()} has none")
    from vllm.renderers.params import ReasoningEffort  # late: see above

    efforts = get_args(ReasoningEffort)
    for effort, name in effort_map.items():
        if effort not in efforts or not isinstance(name, str):
            raise ConfigurationError(
                f"reasoning_effort_map must hold a text for any of {', '.join(efforts)}, not {effort!r}: {name!r}"
            )


@cache
def _tokenize_form() -> TypeAdapter[Any]:
    from vllm.entrypoints.serve.tokenize.protocol import TokenizeRequest  # late: see above

    return TypeAdapter(TokenizeRequest)


def validate_body(validate: Any, body: Any, place: str) -> Any:
    """The value that one of vLLM's types makes of a body, which stays as it is.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    if body is None:
        raise missing_body()
    if isinstance(body, Mapping):
        check_odd_parts(body)
    value = _own_copy(body) if isinstance(body, Mapping) else body
    with refusals():
        try:
            # As FastAPI validates: it decides between a few wordings.
            return validate(value, from_attributes=True)
        except ValidationError as exc:
            raise schema_error(exc, place) from exc


def _own_copy(body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of what vLLM's validators tidy up in place: the body is the caller's."""
    value = dict(body)
    messages, transfer = value.get("messages"), value.get("kv_transfer_params")
    if isinstance(messages, list):
        value["messages"] = [dict(message) if isinstance(message, dict) else message for message in messages]
    if isinstance(transfer, dict):
        value["kv_transfer_params"] = dict(transfer)
    return value
