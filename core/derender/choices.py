"""A choice's output as the choice of an OpenAI answer: a chat's message or delta, a completion's text."""

from __future__ import annotations

from core.choice.output import ChoiceOutput
from core.json import Json
from core.protocol import openai
from core.text.logprobs import completion_logprobs, end_of_text


def chat_message(output: ChoiceOutput) -> Json:
    """The choice of a ``ChatCompletionResponse``."""
    choice = {
        "index": output.source.index,
        "message": openai.message(output.content, output.reasoning, output.tool_calls),
        "logprobs": output.logprobs,
        "finish_reason": output.finish_reason or "stop",
        "stop_reason": output.stop_reason,
        "token_ids": output.token_ids,
        "routed_experts": output.source.routed_experts,
        "weight_versions": output.weight_versions,
    }
    return with_findings(choice, output)


def chat_delta(output: ChoiceOutput, role: str | None) -> Json:
    """The choice of a ``ChatCompletionStreamResponse``."""
    choice = {
        "index": output.source.index,
        "delta": openai.delta(role, output.content, output.reasoning, output.tool_calls),
        "logprobs": output.logprobs,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "token_ids": output.token_ids,
        "weight_versions": output.weight_versions,
    }
    return with_findings(choice, output)


def with_findings(choice: Json, output: ChoiceOutput) -> Json:
    """The choice with what the audit found, where that is shown: ``audit``, a field of ours that clients ignore."""
    if output.shown_findings is not None:
        choice["audit"] = output.shown_findings
    return choice


def completion_choice(output: ChoiceOutput, offset: int = 0) -> tuple[Json, int]:
    """The choice of a completion, whole or in a chunk, and where the text after it begins.

    ``offset`` is where its own text begins, in characters.
    """
    text, source = output.content or "", output.source.logprobs
    logprobs = completion_logprobs(output.logprobs, source, offset) if output.logprobs and source else None
    choice = {
        "index": output.source.index,
        "text": text,
        "logprobs": logprobs,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "prompt_token_ids": None,
        "token_ids": output.token_ids,
        "weight_versions": output.weight_versions,
    }
    return choice, end_of_text(logprobs, offset, text)
