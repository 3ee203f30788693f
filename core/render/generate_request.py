"""The request for the engine (``/inference/v1/generate``) as vLLM 0.33.0 writes it: every field, in its order."""

from __future__ import annotations

from typing import Any

from core.render.media import AS_ASKED, ImageHandling
from core.render.prompt import Prompt
from core.render.sampling import Sampling
from core.upstream.conversations import count_history_tool_calls


class Rendered(dict[str, Any]):
    """A ``GenerateRequest``, and what the audit found of its prompt (``core.render.prompt_audit``)."""

    findings: tuple[str, ...] = ()


def generate_request(
    request: Any,
    request_id: str,
    prompt: Prompt,
    sampling: Sampling,
    *,
    reasoning_ended: bool | None = None,
    reasoning_template_kwargs: dict[str, Any] | None = None,
    parse_context: dict[str, Any] | None = None,
    images: ImageHandling = AS_ASKED,
) -> Rendered:
    """Assemble a ``GenerateRequest``. ``request`` is vLLM's, of any dialect: a field that it lacks is not asked for."""
    streams = bool(request.stream)
    stream_options = _field(request, "stream_options")
    written = {
        "request_id": request_id,
        "token_ids": prompt.token_ids,
        "token_offsets": prompt.offsets,
        "features": None,
        "content_parts": None,
        "sampling_params": sampling.params,
        "model": request.model,
        "reasoning_ended": reasoning_ended,
        "reasoning_parser_kwargs": (
            None if reasoning_template_kwargs is None else {"chat_template_kwargs": reasoning_template_kwargs}
        ),
        "return_token_ids": _field(request, "return_token_ids"),
        "output_mode": "tokens",
        "parse_context": parse_context,
        "stream": streams,
        "stream_options": stream_options.model_dump() if streams and stream_options else None,
        "cache_salt": request.cache_salt,
        "priority": request.priority,
        "kv_transfer_params": sampling.kv_transfer_params,
        "ec_transfer_params": sampling.ec_transfer_params,
    }
    if prompt.images is not None:
        written |= prompt.images.fields(images.payload or request.mm_payload)
    return Rendered(written)


def _field(request: Any, name: str) -> Any:
    """A field of a request, None where its dialect has none of this name: an unknown one may stand there."""
    return getattr(request, name) if name in type(request).model_fields else None


def parse_context(request: Any, template_kwargs: dict[str, Any]) -> dict[str, Any]:
    """What an engine that parses by itself needs of the chat request: vLLM's ``ParseContext``."""
    choice = request.tool_choice
    return {
        "tools": None if request.tools is None else [tool.model_dump() for tool in request.tools],
        "tool_choice": choice if choice is None or isinstance(choice, str) else choice.model_dump(),
        "parallel_tool_calls": request.parallel_tool_calls,
        "include_reasoning": request.include_reasoning,
        "chat_template_kwargs": template_kwargs,
        "history_tool_call_cnt": count_history_tool_calls(request),
    }
