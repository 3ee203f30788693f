"""One-shot completions: one engine answer for each prompt into a ``CompletionResponse``.

Completions only detokenize; no parser ever runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.bounds import check_prompt_ids, check_responses, check_shown_ids
from core.choice.output import ChoiceOutput, Report, unreported
from core.choice.reader import OutputReader
from core.choice.text import read_text
from core.derender.choices import completion_choice
from core.derender.options import options_of_completion
from core.errors import BadRequest, SchemaError
from core.model import Model
from core.protocol import openai
from core.protocol.derender import DerenderCompletionRequest
from core.protocol.engine import GenerateResponse
from core.protocol.output_options import OutputOptions


def derender_completion(
    model: Model, request: DerenderCompletionRequest, report: Report = unreported
) -> dict[str, Any]:
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
    prompt_ids: Sequence[list[int] | None] = request.prompt_token_ids or [None] * len(responses)
    for ids in prompt_ids:
        check_prompt_ids(ids, model.limits)
    answer = complete(model, name, options, responses, request.prompt_tokens or (), prompt_ids)
    if model.options.chunk_form == "openai":
        answer["usage"] = openai.with_prompt_details(answer["usage"], [response.usage for response in responses])
    return answer


def complete(
    model: Model,
    name: str,
    options: OutputOptions,
    responses: Sequence[GenerateResponse],
    prompt_tokens: Sequence[int],
    prompt_ids: Sequence[Sequence[int] | None],
) -> dict[str, Any]:
    """The ``CompletionResponse`` of the engine's answers, one for each prompt.

    Raises:
        BadRequest: a choice is empty, or cannot be read.
    """
    if options.return_token_ids:
        check_shown_ids(sum(len(one.prompt_token_ids or ()) * len(one.choices) for one in responses))
    reader = OutputReader(model, options)
    choices: list[dict[str, Any]] = []
    for response, ids in zip(responses, prompt_ids, strict=True):
        window = reader.seed(ids if ids is not None else response.prompt_token_ids)
        for choice in response.choices:
            if not choice.token_ids:
                raise BadRequest(f"choice {choice.index} in response {response.request_id} has empty or null token_ids")
            choices.append(_choice(response, read_text(reader, choice, window), len(choices), options))
    first = responses[0]
    completion_tokens = sum(len(c.token_ids or ()) for r in responses for c in r.choices)
    return openai.completion_response(
        first,
        name,
        choices,
        openai.usage(sum(prompt_tokens), completion_tokens),
        # These describe one answer; when the answers disagree there is nothing true to say.
        kv_transfer_params=_agreed([r.kv_transfer_params for r in responses]),
        ec_transfer_params=_agreed([r.ec_transfer_params for r in responses]),
        metrics=openai.dump_metrics(first.metrics) if len(responses) == 1 else None,
    )


def _choice(response: GenerateResponse, output: ChoiceOutput, index: int, options: OutputOptions) -> dict[str, Any]:
    choice, _ = completion_choice(output)
    return {
        **choice,
        "index": index,
        "prompt_logprobs": None,
        "prompt_token_ids": response.prompt_token_ids if options.return_token_ids else None,
        "routed_experts": output.source.routed_experts,
    }


def _agreed(values: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    return values[0] if all(value == values[0] for value in values) else None
