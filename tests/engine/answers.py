"""The answers on the wire: fields and their order as a vLLM 0.33.0 server writes them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from tests.engine.faults import ConnectionBroken
from tests.engine.generation import Delta, Engine
from tests.engine.logprobs import logprobs_of, prompt_logprobs_of
from tests.engine.requests import GenerateRequest, StreamOptions
from tests.engine.script import Answer


def usage_of(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


def choice_of(engine: Engine, request: GenerateRequest, delta: Delta) -> dict[str, Any]:
    """A choice; the weight versions are those of a model that is never updated, and come with the last token."""
    end = delta.first + len(delta.token_ids)
    versions = [{"version": "default", "start": 0, "end": end}] if end else []
    count = request.sampling_params.logprobs
    return {
        "index": delta.index,
        "finish_reason": delta.finish_reason,
        "stop_reason": delta.stop_reason,
        "token_ids": delta.token_ids,
        "routed_experts": None,
        "sampling_mask": None,
        "weight_versions": versions if delta.finish_reason else None,
        "logprobs": logprobs_of(delta.token_ids, delta.first, count, engine.model.vocab_size),
    }


async def one_shot(engine: Engine, request: GenerateRequest, request_id: str, answer: Answer) -> dict[str, Any]:
    """The body of an answer that is not streamed.  Raises EngineError and ConnectionBroken as the script says."""
    whole = [Delta(i, [], 0) for i in range(request.sampling_params.n)]
    fault = answer.fault
    if fault is not None and fault.kind == "slow":
        await asyncio.sleep(fault.seconds)
    elif fault is not None and fault.kind == "wrong":
        return {"wrong": fault.text}
    elif fault is not None and fault.kind == "error":
        raise fault.error()
    elif fault is not None and fault.kind in ("break", "cut"):
        raise ConnectionBroken
    async for delta in engine.generate(request, request_id, answer):
        choice = whole[delta.index]
        choice.token_ids += delta.token_ids
        choice.finish_reason, choice.stop_reason = delta.finish_reason, delta.stop_reason
    prompt, count = request.token_ids, request.sampling_params.prompt_logprobs
    return {
        "request_id": request_id,
        "model": engine.names[0],
        "created": int(time.time()),
        "usage": usage_of(len(prompt), sum(len(choice.token_ids) for choice in whole)),
        "prompt_logprobs": None if count is None else prompt_logprobs_of(engine.model, prompt, count),
        "prompt_token_id_logprobs": None,
        "prompt_token_ids": prompt if request.return_token_ids else None,
        "mm_placeholders": None,
        "metrics": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "output_mode": "tokens",
        "choices": [choice_of(engine, request, choice) for choice in whole],
    }


async def events(engine: Engine, request: GenerateRequest, request_id: str, answer: Answer) -> AsyncIterator[str]:
    """The server-sent events of a stream: one choice an event, then the usage if asked for, then [DONE].

    Raises ConnectionBroken where the script says so.
    """
    options = request.stream_options or StreamOptions()
    prompt, total = len(request.token_ids), 0
    ids: dict[str, Any] = {"prompt_token_ids": request.token_ids} if request.return_token_ids else {}
    fault = answer.fault

    def event(usage: dict[str, Any] | None, choices: list[dict[str, Any]]) -> str:
        chunk = {"request_id": request_id, "usage": usage, **ids, "output_mode": "tokens", "choices": choices}
        return f"data: {json.dumps(chunk, ensure_ascii=False, separators=(',', ':'))}\n\n"

    async for delta in engine.generate(request, request_id, answer):
        if fault is not None and total >= fault.after:
            if fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
                fault = None
            elif fault.kind == "break":
                raise ConnectionBroken
            elif fault.kind == "cut":
                return
            elif fault.kind == "error":
                yield f"data: {json.dumps(fault.error().body)}\n\ndata: [DONE]\n\n"
                return
            elif fault.kind == "wrong":
                yield f"data: {fault.text}\n\n"
                continue
        total += len(delta.token_ids)
        continuous = options.include_usage and options.continuous_usage_stats
        usage = usage_of(prompt, delta.first + len(delta.token_ids)) if continuous else None
        yield event(usage, [choice_of(engine, request, delta)])
        ids = {}
    if options.include_usage:
        yield event({key: value for key, value in usage_of(prompt, total).items() if value is not None}, [])
    yield "data: [DONE]\n\n"
