"""The OpenAI response shapes as vLLM 0.33.0 writes them, built as plain mappings.

Every field that vLLM writes is there, null where it has no value; a key that
vLLM leaves out (``tool_calls`` of a message without any) is left out. Keeping
them mappings keeps pydantic out of the way of a response that is written once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from core.json import Json
from core.protocol.engine import GenerateChunk, GenerateResponse, Logprob, Metrics, Usage


def random_id() -> str:
    """32 hexadecimal digits, drawn now: nothing of it may survive a snapshot of the process."""
    return secrets.token_hex(16)


def usage(prompt_tokens: int, completion_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


def chunk_usage(reported: Usage | None, prompt_tokens: int | None) -> Json | None:
    """Usage of a stream chunk: the engine's, with the caller's prompt count where it gives one."""
    if reported is None:
        return None
    prompt = prompt_tokens if prompt_tokens is not None else reported.prompt_tokens or 0
    return usage(prompt, reported.completion_tokens or 0)


def with_prompt_details(counts: Json, reported: Sequence[Usage | None]) -> Json:
    """``counts`` with what only engines know of the prompts: how many of their tokens were cached.

    Of several answers the numbers are added up; those of which there are none stay out.
    """
    told = [usage.prompt_tokens_details for usage in reported if usage is not None]
    details = [one for one in told if one is not None]
    if not details:
        return counts
    if len(details) == 1:
        return {**counts, "prompt_tokens_details": details[0].model_dump(exclude_none=True)}
    cached = [one.cached_tokens for one in details if one.cached_tokens is not None]
    return {**counts, "prompt_tokens_details": {"cached_tokens": sum(cached)}} if cached else counts


def without_nulls(value: Any) -> Any:
    """A value without its null fields, at any depth."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def message(
    content: str | None,
    reasoning: str | None = None,
    tool_calls: Sequence[Mapping[str, object]] | None = None,
    role: str = "assistant",
) -> Json:
    """A chat message; empty ``tool_calls`` are left out, as vLLM does."""
    body: Json = {
        "role": role,
        "content": content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if tool_calls:
        body["tool_calls"] = tool_calls
    body["reasoning"] = reasoning
    return body


def delta(
    role: str | None,
    content: str | None,
    reasoning: str | None = None,
    tool_calls: Sequence[Mapping[str, object]] | None = None,
) -> Json:
    """A chat delta; empty ``tool_calls`` are left out, as vLLM does."""
    body: Json = {"role": role, "content": content, "reasoning": reasoning}
    if tool_calls:
        body["tool_calls"] = tool_calls
    return body


def dump_metrics(metrics: Metrics | None) -> Json | None:
    return None if metrics is None else metrics.model_dump()


def dump_prompt_logprobs(prompt_logprobs: list[dict[int, Logprob] | None] | None) -> list[Json | None] | None:
    """Prompt logprobs by position; ids become JSON keys, as on the engine's side."""
    if prompt_logprobs is None:
        return None
    return [
        None if position is None else {str(i): asdict(entry) for i, entry in position.items()}
        for position in prompt_logprobs
    ]


def chat_response(source: GenerateResponse, model: str, choices: list[Json], counts: Json, **fields: Any) -> Json:
    """A ``ChatCompletionResponse``; ``fields`` override the defaults."""
    body: Json = {
        "id": source.request_id or random_id(),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": None,
        "usage": counts,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }
    body.update(fields)
    return body


def completion_response(source: GenerateResponse, model: str, choices: list[Json], counts: Json, **fields: Any) -> Json:
    """A ``CompletionResponse``; ``fields`` override the defaults."""
    body: Json = {
        "id": source.request_id or random_id(),
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": None,
        "usage": counts,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }
    body.update(fields)
    return body


def chat_chunk(source: GenerateChunk, model: str, choices: list[Json], counts: Json | None, **fields: Any) -> Json:
    """A ``ChatCompletionStreamResponse``; ``fields`` override the defaults."""
    body: Json = {
        "id": source.request_id or random_id(),
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "usage": counts,
        "system_fingerprint": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "metrics": dump_metrics(source.metrics),
        "kv_transfer_params": None,
    }
    body.update(fields)
    return body


def completion_chunk(
    source: GenerateChunk, model: str, choices: list[Json], counts: Json | None, **fields: Any
) -> Json:
    """A ``CompletionStreamResponse``; ``fields`` override the defaults."""
    body: Json = {
        "id": source.request_id or random_id(),
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "usage": counts,
        "system_fingerprint": None,
        "metrics": dump_metrics(source.metrics),
        "kv_transfer_params": None,
    }
    body.update(fields)
    return body
