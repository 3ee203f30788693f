"""One-shot completions: one engine answer for each prompt into a ``CompletionResponse``.

Completions only detokenize; no parser ever runs.
"""

from __future__ import annotations

from typing import Any

from core.bounds import check_prompt_ids, check_responses
from core.derender.output import carried_fields, decode_output, options_of_completion, resolve_logprobs
from core.errors import BadRequest, SchemaError
from core.model import Model
from core.protocol import openai
from core.protocol.derender import DerenderCompletionRequest
from core.protocol.engine import Choice, GenerateResponse
from core.protocol.output_options import OutputOptions
from core.text.detokenizer import DecodeOptions, Window, seed_window
from core.text.logprobs import completion_logprobs


def derender_completion(model: Model, request: DerenderCompletionRequest) -> dict[str, Any]:
    """Decode every choice of every engine answer; choices are numbered through all prompts.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    responses = request.generate_responses
    for field, given in (("prompt_tokens", request.prompt_tokens), ("prompt_token_ids", request.prompt_token_ids)):
        if given is not None and len(given) != len(responses):
            raise SchemaError(
                f"1 validation error:\n  {{'type': 'value_error', 'loc': 'body', 'msg': '{field} length "
                f"({len(given)}) must equal generate_responses length ({len(responses)})'}}",
                "body",
            )
    options = options_of_completion(request.completion_request)
    name = model.resolve_name(request.model)
    if not responses:
        raise BadRequest("generate_responses must not be empty")
    check_responses(responses, model.limits)
    prompt_ids = request.prompt_token_ids or [None] * len(responses)
    for ids in prompt_ids:
        check_prompt_ids(ids, model.limits)
    choices: list[dict[str, Any]] = []
    decode = options.decode_options(model.tokenizer.is_fast)
    try:
        for response, ids in zip(responses, prompt_ids, strict=True):
            seed = ids if ids is not None else response.prompt_token_ids
            window = seed_window(model.tokenizer, seed, decode.skip_special)
            for choice in response.choices:
                choices.append(_choice(model, response, choice, len(choices), options, decode, window))
    except OverflowError as exc:
        raise BadRequest(str(exc)) from exc
    first = responses[0]
    completion_tokens = sum(len(c.token_ids or ()) for r in responses for c in r.choices)
    return openai.completion_response(
        first,
        name,
        choices,
        openai.usage(sum(request.prompt_tokens or ()), completion_tokens),
        # These describe one answer; when the answers disagree there is nothing true to say.
        kv_transfer_params=_agreed([r.kv_transfer_params for r in responses]),
        ec_transfer_params=_agreed([r.ec_transfer_params for r in responses]),
        metrics=openai.dump_metrics(first.metrics) if len(responses) == 1 else None,
    )


def _choice(
    model: Model,
    response: GenerateResponse,
    choice: Choice,
    index: int,
    options: OutputOptions,
    decode: DecodeOptions,
    window: Window,
) -> dict[str, Any]:
    if not choice.token_ids:
        raise BadRequest(f"choice {choice.index} in response {response.request_id} has empty or null token_ids")
    text, stop_reason = decode_output(model, choice, options, window, decode)
    resolved = resolve_logprobs(model, choice.logprobs, options.top_limit)
    flat = completion_logprobs(resolved, choice.logprobs) if resolved and choice.logprobs else None
    return {
        "index": index,
        "text": text,
        "logprobs": flat,
        "finish_reason": choice.finish_reason,
        "stop_reason": stop_reason,
        "token_ids": choice.token_ids if options.return_token_ids else None,
        "prompt_logprobs": None,
        "prompt_token_ids": response.prompt_token_ids if options.return_token_ids else None,
        "routed_experts": choice.routed_experts,
        **carried_fields(choice),
    }


def _agreed(values: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    return values[0] if all(value == values[0] for value in values) else None
