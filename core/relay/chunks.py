"""OpenAI chunks as vLLM's full server writes them: other keys than derender's, where unset fields are left out.

The order and the presence of the keys are those of vLLM 0.33.0's streams
(``chat_completion/serving.py``, ``completion/serving.py``).
"""

from __future__ import annotations

from core.choice.output import ChoiceOutput
from core.derender.choices import with_findings
from core.json import Json
from core.protocol import openai
from core.protocol.engine import Usage
from core.relay.request import RelayRequest


def chunk(request: RelayRequest, choices: list[Json], counts: Json | None) -> Json:
    """A chunk of a stream; ``counts`` only where it tells its usage."""
    body: Json = {
        "id": request.response_id,
        "object": "chat.completion.chunk" if request.is_chat else "text_completion",
        "created": request.created,
        "model": request.model_name,
        "choices": choices,
    }
    if counts is not None:
        body["usage"] = counts
    return body


def role_chunk(request: RelayRequest, index: int, counts: Json | None) -> Json:
    """The first chunk of a choice. It is where the prompt's ids stand, when they are asked for."""
    choice = {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ids = request.prompts[0]["token_ids"] if request.options.return_token_ids else None
    return {**chunk(request, [choice], counts), "prompt_token_ids": ids, "prompt_text": None}


def content_chunk(request: RelayRequest, index: int, content: str, counts: Json | None) -> Json:
    """A chunk of content that is not the model's: what the request had echoed."""
    choice = {"index": index, "delta": {"content": content}, "logprobs": None, "finish_reason": None}
    return chunk(request, [choice], counts)


def chat_choice(output: ChoiceOutput) -> Json | None:
    """The choice of a chat stream; None when it says nothing. The role went out with the first chunk."""
    delta: Json = {}
    if output.content is not None:
        delta["content"] = output.content
    if output.reasoning is not None:
        delta["reasoning"] = output.reasoning
    if output.tool_calls:
        delta["tool_calls"] = openai.without_nulls(output.tool_calls)
    finish_reason, logprobs, token_ids = output.finish_reason, output.logprobs, output.token_ids
    if not delta and finish_reason is None and logprobs is None and token_ids is None:
        return None
    body: Json = {
        "index": output.source.index,
        "delta": delta,
        "logprobs": logprobs,
        "finish_reason": finish_reason,
        "token_ids": token_ids,
    }
    if finish_reason is not None:
        body["stop_reason"] = output.stop_reason
        body["weight_versions"] = output.weight_versions
    return with_findings(body, output)


def usage_chunk(request: RelayRequest, counts: Json, reported: Usage | None, metrics: Json | None) -> Json:
    """The last chunk: no choices, only the usage of all of them."""
    body = chunk(request, [], openai.with_prompt_details(counts, [reported]))
    if metrics is not None:
        body["metrics"] = metrics
    return body


def usage(prompt_tokens: int, completion_tokens: int, reasoning_tokens: int | None) -> Json:
    """Token counts; how many are reasoning only where the deployment can tell."""
    counts: Json = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }
    if reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens}
    return counts
