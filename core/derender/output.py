"""What one-shot and streaming, chat and completions derender have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from core.errors import BadRequest
from core.model import Model
from core.protocol.engine import Choice, LogProbs, StreamChoice
from core.protocol.output_options import (
    NO_REQUEST,
    OutputOptions,
    chat_options,
    completion_options,
    plain_chat_options,
    plain_completion_options,
)
from core.text.detokenizer import DecodeOptions, Window, detokenize, detokenize_all
from core.text.logprobs import chat_logprobs
from core.text.stop import StopReason, cut_stop_string, drop_stop_token, strings_to_cut
from core.upstream.requests import validate_chat, validate_completion


def options_of_chat(request: Mapping[str, Any] | None) -> OutputOptions:
    """The output options of a chat request that no parser needs.

    Raises:
        SchemaError, BadRequest: the request is not valid.
    """
    if request is None:
        return NO_REQUEST
    return plain_chat_options(request) or chat_options(validate_chat(request, "body.chat_request"))


def options_of_completion(request: Mapping[str, Any] | None) -> OutputOptions:
    """The output options of a completion request.

    Raises:
        SchemaError, BadRequest: the request is not valid.
    """
    if request is None:
        return NO_REQUEST
    plain = plain_completion_options(request)
    return plain or completion_options(validate_completion(request, "body.completion_request"))


def decode_output(
    model: Model, choice: Choice, options: OutputOptions, window: Window, decode: DecodeOptions
) -> tuple[str, StopReason]:
    """The text of a complete output as the engine would return it, and why it stopped.

    The stop token is dropped, then the text is cut at the stop string that
    ended generation; such a string also overrides the stop token as the reason.

    Raises:
        OverflowError: an id does not fit 32 bits.
    """
    token_ids, stop_reason = drop_stop_token(
        choice.token_ids or (), choice.finish_reason, choice.stop_reason, options.stop, model.eos
    )
    strings = strings_to_cut(choice.finish_reason, choice.stop_reason, options.stop)
    if not strings:
        return detokenize_all(model.tokenizer, token_ids, window, decode), stop_reason
    # Where the text after the first min_tokens tokens begins is known only incrementally.
    protected = options.stop.min_tokens
    head, window = detokenize(model.tokenizer, token_ids[:protected], window, decode)
    tail = detokenize_all(model.tokenizer, token_ids[protected:], window, decode)
    text, matched = cut_stop_string(head + tail, len(tail), strings, options.stop.include_in_output)
    return text, stop_reason if matched is None else matched


def resolve_logprobs(
    model: Model, logprobs: LogProbs | None, top_limit: int | None, context: list[int] | None = None
) -> dict[str, Any] | None:
    """Chat logprobs of one choice, None when the engine sent none.

    Raises:
        BadRequest: an entry has no id, or one that no tokenizer can hold.
    """
    if logprobs is None:
        return None
    try:
        return chat_logprobs(logprobs, model.tokenizer, context or (), top_limit)
    except (ValueError, OverflowError) as exc:
        raise BadRequest(str(exc)) from exc


def carried_fields(choice: Choice | StreamChoice) -> dict[str, Any]:
    """What the engine says of a choice that derender only passes on.

    vLLM's coupled endpoints return these; its derender leaves them null.
    """
    spans = choice.weight_versions
    return {"weight_versions": None if spans is None else [asdict(span) for span in spans]}
