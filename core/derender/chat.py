"""One-shot chat: a complete engine answer into a ``ChatCompletionResponse``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.bounds import check_prompt_ids, check_responses
from core.choice.output import ChoiceOutput, Report, report_findings, unreported
from core.choice.reader import OutputReader
from core.choice.text import read_text
from core.derender.choices import chat_message
from core.derender.options import CHAT_REQUEST_REQUIRED, options_of_chat
from core.errors import BadRequest
from core.model import Model
from core.protocol import openai
from core.protocol.derender import DerenderChatRequest, OneShotBody
from core.protocol.engine import GenerateResponse
from core.protocol.output_options import OutputOptions, chat_options


def derender_chat(model: Model, request: DerenderChatRequest, report: Report = unreported) -> dict[str, Any]:
    """Decode, parse and assemble every choice of an engine answer. ``report`` is told what the audit found.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    name = model.resolve_name(request.model)
    source = request.generate_response
    check_responses([source], model.limits)
    check_prompt_ids(request.prompt_token_ids, model.limits)
    parser = model.chat_parser
    chat_request = None
    if parser is None:
        options = options_of_chat(request.chat_request)
    elif request.chat_request is None:
        raise BadRequest(CHAT_REQUEST_REQUIRED)
    else:
        chat_request = parser.validate(request.chat_request)
        options = chat_options(chat_request)
    outputs = read_chat(model, source, options, chat_request, request.prompt_token_ids)
    report_findings(outputs, report)
    response = chat_response(source, name, options, outputs, request.prompt_tokens or 0)
    if model.options.chunk_form == "openai":
        response["usage"] = openai.with_prompt_details(response["usage"], [source.usage])
    prompt_ids = request.prompt_token_ids if request.prompt_token_ids is not None else source.prompt_token_ids
    for choice, state in zip(response["choices"], turn_states(model, request, source, prompt_ids), strict=False):
        choice |= state
    return response


def turn_states(
    model: Model, body: OneShotBody, source: GenerateResponse, prompt_token_ids: Sequence[int] | None
) -> list[dict[str, Any]]:
    """The ``turn_state`` of each choice, as a field, in order; empty where nobody asked.

    Raises:
        BadRequest, SchemaError: the prompt's ``turn_state`` is missing, or does not match.
    """
    if not body.return_turn_state:
        return []
    from core.turns.answered import answered, read_state  # late: few callers continue turns

    state = read_state(model, body.turn_state, prompt_token_ids)
    return [{"turn_state": answered(model, state, choice.token_ids or ())} for choice in source.choices]


def read_chat(
    model: Model,
    source: GenerateResponse,
    options: OutputOptions,
    chat_request: Any,
    prompt_token_ids: Sequence[int] | None,
    *,
    count_reasoning: bool = False,
    repaired: bool = False,
) -> list[ChoiceOutput]:
    """Read every choice of an engine answer.

    ``chat_request`` is vLLM's, validated, where the deployment has a parser.
    With ``count_reasoning`` the outputs tell how many of their tokens are
    reasoning, where the parser can tell. ``repaired`` says how they are read
    where the deployment does not.

    Raises:
        BadRequest: a choice is empty, or cannot be read.
    """
    reader = OutputReader(model, options, parsed=model.chat_parser is not None)
    window = reader.seed(prompt_token_ids if prompt_token_ids is not None else source.prompt_token_ids)
    parser, expected, repairs = None, None, False
    if model.chat_parser is not None:
        # Late: only a deployment with a parser has vLLM's modules loaded.
        from core.choice.audit import expected_of
        from core.choice.parsed import read_parsed, read_repaired

        prompt: Sequence[int] | None = source.prompt_token_ids
        if prompt is None and model.options.one_shot_prompt == "request":
            prompt = prompt_token_ids
        expected = expected_of(chat_request) if model.chat_parser.audits else None
        repairs = model.chat_parser.repairs(chat_request, by_default=repaired)
        budget = model.chat_parser.budget()
        parser = model.chat_parser.for_request(
            chat_request, prompt, count_reasoning=count_reasoning and model.chat_parser.counts_reasoning
        )
    outputs = []
    for choice in source.choices:
        if not choice.token_ids:
            raise BadRequest(f"choice {choice.index} has empty or null token_ids")
        if parser is None or model.chat_parser is None:
            outputs.append(read_text(reader, choice, window))
        elif repairs:
            told = prompt if prompt is not None else prompt_token_ids
            output = read_repaired(reader, model.chat_parser, chat_request, told, choice, window, expected, budget)
            output.reasoning_tokens = output.reasoning_tokens if count_reasoning else None
            outputs.append(output)
        else:
            outputs.append(read_parsed(reader, parser, choice, window, expected))
    return outputs


def chat_response(
    source: GenerateResponse, name: str, options: OutputOptions, outputs: Sequence[ChoiceOutput], prompt_tokens: int
) -> dict[str, Any]:
    """The ``ChatCompletionResponse`` of what the choices of an engine answer say.

    The usage tells reasoning tokens where they were counted: vLLM's full
    server does, its derender does not.
    """
    completion_tokens = sum(len(choice.token_ids or ()) for choice in source.choices)
    usage = openai.usage(prompt_tokens, completion_tokens)
    counted = [output.reasoning_tokens for output in outputs if output.reasoning_tokens is not None]
    if counted:
        usage["completion_tokens_details"] = {"reasoning_tokens": sum(counted)}
    return openai.chat_response(
        source,
        name,
        list(map(chat_message, outputs)),
        usage,
        prompt_logprobs=openai.dump_prompt_logprobs(source.prompt_logprobs),
        prompt_token_ids=source.prompt_token_ids if options.return_token_ids else None,
        kv_transfer_params=source.kv_transfer_params,
        ec_transfer_params=source.ec_transfer_params,
        metrics=openai.dump_metrics(source.metrics),
    )
