"""One-shot chat: a complete engine answer into a ``ChatCompletionResponse``."""

from __future__ import annotations

from typing import Any

from core.bounds import check_prompt_ids, check_responses
from core.derender.output import carried_fields, decode_output, options_of_chat, resolve_logprobs
from core.errors import BadRequest
from core.model import Model
from core.protocol import openai
from core.protocol.derender import DerenderChatRequest
from core.protocol.engine import Choice
from core.protocol.output_options import OutputOptions, chat_options
from core.text.detokenizer import seed_window

CHAT_REQUEST_REQUIRED = (
    "chat_request is required when a tool or reasoning parser is configured because plain detokenization "
    "would leak raw parser markup into content."
)


def derender_chat(model: Model, request: DerenderChatRequest, *, count_reasoning: bool = False) -> dict[str, Any]:
    """Decode, parse and assemble every choice of an engine answer.

    With ``count_reasoning`` the usage tells how many tokens are reasoning,
    where the deployment has a reasoning parser: vLLM's full server does, its
    derender does not.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    name = model.resolve_name(request.model)
    source = request.generate_response
    check_responses([source], model.limits)
    check_prompt_ids(request.prompt_token_ids, model.limits)
    parser = model.chat_parser
    if parser is not None and request.chat_request is None:
        raise BadRequest(CHAT_REQUEST_REQUIRED)
    parsed = None
    if parser is not None and request.chat_request is not None:
        chat_request = parser.validate(request.chat_request)
        options = chat_options(chat_request)
        prompt = source.prompt_token_ids
        if prompt is None and model.options.one_shot_prompt == "request":
            prompt = request.prompt_token_ids
        parsed = parser.for_request(chat_request, prompt)
        parsed.count_reasoning = count_reasoning and parser.counts_reasoning
    else:
        options = options_of_chat(request.chat_request)
    decode = options.decode_options(model.tokenizer.is_fast, keep_special=parsed is not None)
    # Hidden reasoning must not come back through its logprobs or token ids.
    hidden = parsed is not None and not options.include_reasoning
    seed = request.prompt_token_ids if request.prompt_token_ids is not None else source.prompt_token_ids
    try:
        window = seed_window(model.tokenizer, seed, decode.skip_special)
        choices = []
        for choice in source.choices:
            if not choice.token_ids:
                raise BadRequest(f"choice {choice.index} has empty or null token_ids")
            logprobs = None if hidden else resolve_logprobs(model, choice.logprobs, options.top_limit)
            text, stop_reason = decode_output(model, choice, options, window, decode)
            if parsed is not None:
                message, finish_reason = parsed.parse(text, choice.token_ids, choice.finish_reason)
            else:
                message, finish_reason = openai.message(text), choice.finish_reason or "stop"
            choices.append(_choice(choice, message, logprobs, finish_reason, stop_reason, options, hidden))
    except OverflowError as exc:
        raise BadRequest(str(exc)) from exc
    completion_tokens = sum(len(choice.token_ids or ()) for choice in source.choices)
    usage = openai.usage(request.prompt_tokens or 0, completion_tokens)
    if parsed is not None and parsed.count_reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": parsed.reasoning_tokens}
    return openai.chat_response(
        source,
        name,
        choices,
        usage,
        prompt_logprobs=openai.dump_prompt_logprobs(source.prompt_logprobs),
        prompt_token_ids=source.prompt_token_ids if options.return_token_ids else None,
        kv_transfer_params=source.kv_transfer_params,
        ec_transfer_params=source.ec_transfer_params,
        metrics=openai.dump_metrics(source.metrics),
    )


def _choice(
    choice: Choice,
    message: dict[str, Any],
    logprobs: dict[str, Any] | None,
    finish_reason: str,
    stop_reason: int | str | None,
    options: OutputOptions,
    hidden: bool,
) -> dict[str, Any]:
    return {
        "index": choice.index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": finish_reason,
        "stop_reason": stop_reason,
        "token_ids": choice.token_ids if options.return_token_ids and not hidden else None,
        "routed_experts": choice.routed_experts,
        **carried_fields(choice),
    }
