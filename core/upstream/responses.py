"""OpenAI's Responses: request types, what a request says to the model, and the envelope of an answer.

The input code is vLLM's: items become the messages of a chat, or for gpt-oss
models messages of harmony. Nothing is looked up: there is no store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from vllm.entrypoints.generate.base.protocol import FunctionCall
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest, ResponsesResponse
from vllm.entrypoints.openai.responses.utils import (
    Logprob,
    build_response_output_items,
    construct_input_messages,
    construct_tool_dicts,
)

from core.choice.output import ChoiceOutput, ToolCall
from core.json import Json
from core.protocol.schema_error import BODY
from core.upstream.contract import has
from core.upstream.requests import validate_body
from core.upstream.version import vllm_version

__all__ = [
    "chat_messages",
    "envelope",
    "log_probabilities",
    "output_items",
    "responses_type",
    "tool_dicts",
    "validate_responses",
    "wants_logprobs",
]


def responses_type() -> type[BaseModel]:
    """vLLM's ``ResponsesRequest``."""
    request_type: type[BaseModel] = ResponsesRequest
    return request_type


def validate_responses(body: Any, place: str = BODY) -> Any:
    """A ``ResponsesRequest`` of vLLM; ``place`` is where the body stands in that of the call.

    Raises:
        SchemaError, BadRequest: as vLLM would.
    """
    return validate_body(ResponsesRequest.model_validate, body, place)


def chat_messages(request: Any) -> list[Any]:
    """The messages of a chat that a request's instructions and input stand for.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    messages: list[Any] = construct_input_messages(
        request_instructions=request.instructions, request_input=request.input
    )
    return messages


def tool_dicts(request: Any, *, exclude_unwanted: bool) -> list[Json] | None:
    """A request's functions in the form of a chat's tools; None where it has none.

    With ``exclude_unwanted`` there are none where ``tool_choice`` is "none".

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    tools: list[Json] | None = construct_tool_dicts(
        request.tools, request.tool_choice, exclude_tools_when_tool_choice_none=exclude_unwanted
    )
    return tools


def envelope(request: Any, sampling: Any, model_name: str, created: int, **parts: Any) -> Json:
    """The ``ResponsesResponse`` of a request, as JSON; ``parts`` are its output, status, usage and what else it tells.

    ``sampling`` are vLLM's ``SamplingParams`` of the request.

    Raises:
        Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
    """
    response = ResponsesResponse.from_request(request, sampling, model_name=model_name, created_time=created, **parts)
    written: Json = response.model_dump(mode="json", by_alias=True)
    return written


def log_probabilities(positions: Sequence[Json]) -> list[Any]:
    """Log probabilities of tokens, in a chat's form, as those of a response's text."""
    return [Logprob.model_validate(position) for position in positions]


def output_items(
    request: Any, output: ChoiceOutput, logprobs: Sequence[Json] | None, *, has_parser: bool
) -> list[Json]:
    """The items of a complete output; ``logprobs`` are those of all its tokens, None where they are not wanted.

    Raises:
        Exception: of any kind, over what the model wrote.
    """
    told = None if logprobs is None else log_probabilities(logprobs)
    ends = (
        {"finish_reason": output.finish_reason}
        if has(vllm_version(), "build_response_output_items.finish_reason")
        else {}
    )
    calls = [_function_call(call) for call in output.tool_calls]
    items: list[Any] = build_response_output_items(
        reasoning=output.reasoning,
        content=output.content,
        tool_calls=calls,
        logprobs=told,
        tools=request.tools,
        **ends,
    )
    if not items and not has_parser:
        # Where there is no parser there is a message, whatever it says.
        items = build_response_output_items(reasoning=None, content="-", tool_calls=None, **ends)
        items[0].content = []
    return [item.model_dump(mode="json", by_alias=True) for item in items]


def _function_call(call: ToolCall) -> FunctionCall:
    function = call["function"]
    assert function is not None
    return FunctionCall(id=call["id"], name=function["name"] or "", arguments=function["arguments"] or "")


def wants_logprobs(request: Any) -> bool:
    """Whether a request wants its answer's log probabilities, which stand with the text."""
    return bool(request.is_include_output_logprobs())
