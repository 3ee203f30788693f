"""What later chunks need of a request, carried in the state so that they need not send it again.

Only the fields that shape an output are kept. Of the conversation nothing is
left but how many tools were called in it, which numbers the next ones for
some models.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.errors import BadRequest, InvalidState, LongWork
from core.protocol.json_text import json_bytes

# What derender and vLLM's parsers read of a chat or completion request.
KEPT = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "include_reasoning",
    "chat_template_kwargs",
    "reasoning_effort",
    "add_generation_prompt",
    "continue_final_message",
    "response_format",
    "structured_outputs",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "logprobs",
    "top_logprobs",
    "logprob_token_ids",
    "return_token_ids",
    "stop_token_ids",
    "ignore_eos",
    "include_stop_str_in_output",
    "min_tokens",
)
# Tools of a large agent take some 100 KB, the ids of a long prompt (only a replay carries them) up to a few MB.
MAX_CONTEXT_BYTES = 4 * 1024 * 1024
_PARAM = "stream_state.context"


@dataclass(frozen=True)
class Context:
    """The carried half of a request; a missing part was not given."""

    model: str | None = None
    prompt_tokens: int | None = None
    prompt_token_ids: list[int] | None = None
    request: dict[str, Any] | None = None


def reduce_chat(request: Mapping[str, Any]) -> dict[str, Any]:
    """A chat request with only the fields that shape its output."""
    return {**_kept(request), "messages": [_call_skeleton(m) for m in request.get("messages") or () if _calls(m)]}


def reduce_completion(request: Mapping[str, Any]) -> dict[str, Any]:
    """A completion request with only the fields that shape its output."""
    return {**_kept(request), "prompt": "-"}  # it must have one; nothing reads it


def _kept(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: request[name] for name in KEPT if name in request}


def _calls(message: Any) -> list[Any]:
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    return calls if isinstance(calls, list) else []


def _call_skeleton(message: Any) -> dict[str, Any]:
    call = {"id": "", "type": "function", "function": {"name": "", "arguments": "{}"}}
    return {"role": "assistant", "content": "", "tool_calls": [call] * len(_calls(message))}


def pack_context(context: Context) -> str:
    """The context as text for a state.

    Raises:
        BadRequest: it is larger than any that would be read back.
    """
    parts = {
        "m": context.model,
        "n": context.prompt_tokens,
        "p": context.prompt_token_ids,
        "r": context.request,
    }
    data = json_bytes({name: value for name, value in parts.items() if value is not None})
    if len(data) > MAX_CONTEXT_BYTES:
        raise BadRequest(
            f"carry_context: what must be carried has {len(data)} bytes, more than {MAX_CONTEXT_BYTES}; "
            f"send the request with every call instead",
            "carry_context",
        )
    return base64.urlsafe_b64encode(zlib.compress(data, 6)).rstrip(b"=").decode("ascii")


def unpack_context(text: str, most: int | None = None) -> Context:
    """Read what :func:`pack_context` wrote; ``most`` is how many bytes are short work, None for any.

    Raises:
        LongWork: it has more than that.
        InvalidState: it is not such a text, or larger than any context.
    """
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, MAX_CONTEXT_BYTES + 1)
        if not inflater.eof or inflater.unused_data or len(data) > MAX_CONTEXT_BYTES:
            raise InvalidState("context is damaged or too large", _PARAM)
        if most is not None and len(data) > most:
            raise LongWork
        parts = json.loads(data)
        context = Context(parts.get("m"), parts.get("n"), parts.get("p"), parts.get("r"))
    except (binascii.Error, zlib.error, ValueError, AttributeError, RecursionError) as exc:
        raise InvalidState("context is damaged", _PARAM) from exc
    if not _well_formed(context):
        raise InvalidState("context is malformed", _PARAM)
    return context


def context_with_prompt(text: str, prompt_token_ids: list[int]) -> str:
    """A packed context with the prompt's ids in it: what a stream needs that is carried by replay.

    Raises:
        BadRequest, InvalidState: as packing and unpacking do.
    """
    context = unpack_context(text)
    if context.prompt_token_ids is not None:
        return text
    return pack_context(replace(context, prompt_token_ids=prompt_token_ids))


def _well_formed(context: Context) -> bool:
    ids = context.prompt_token_ids
    return (
        (context.model is None or isinstance(context.model, str))
        and (context.prompt_tokens is None or type(context.prompt_tokens) is int)
        and (ids is None or (isinstance(ids, list) and all(type(i) is int and 0 <= i < 2**32 for i in ids)))
        and (context.request is None or isinstance(context.request, dict))
    )
