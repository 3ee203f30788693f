"""What is refused before any decoding or parsing, so that no body can buy more work than it should.

The limits and their wording are vLLM 0.33.0's (``ServingDerender``), apart
from the checks on stream chunks, where vLLM accepts ids that no tokenizer can
hold (``docs/compatibility.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import BadRequest
from core.protocol.derender import StreamState
from core.protocol.engine import GenerateChunk, GenerateResponse, LogProbs

MAX_TOKEN_ID = 2**32 - 1
# Token counts are only added up and shown; beyond this they are not counts.
MAX_COUNT = 2**53
# Each costs pydantic about 50 microseconds and can cost a client two bytes: six megabytes of them would take minutes.
MAX_ODD_PARTS = 1000
# Ids of prompts that one answer may repeat: some 25 MB of JSON.
MAX_SHOWN_IDS = 2**22
# Ids that are only turned into text: so many, or twice the context. Some 80 MB.
MAX_DECODED_IDS = 2**20


@dataclass(frozen=True)
class Limits:
    """A deployment's limits: context length and sequences, and candidates per position (-1: any number)."""

    max_model_len: int
    max_n_sequences: int = 16384
    max_logprobs: int = 20


def check_responses(responses: Sequence[GenerateResponse], limits: Limits) -> None:
    """Bound complete engine answers.

    Raises:
        BadRequest: says which count exceeds which limit.
    """
    if len(responses) > limits.max_n_sequences:
        raise BadRequest(
            f"generate_responses count ({len(responses)}) exceeds server maximum ({limits.max_n_sequences}). "
            f"Set VLLM_MAX_N_SEQUENCES to increase this limit."
        )
    for response in responses:
        if len(response.choices) > limits.max_n_sequences:
            raise BadRequest(
                f"choices count ({len(response.choices)}) in response '{response.request_id}' "
                f"exceeds server maximum ({limits.max_n_sequences})."
            )
        for choice in response.choices:
            if choice.token_ids and len(choice.token_ids) > limits.max_model_len:
                raise BadRequest(
                    f"token_ids length ({len(choice.token_ids)}) in choice {choice.index} exceeds "
                    f"max_model_len ({limits.max_model_len})."
                )
            check_logprobs(choice.logprobs, choice.index, limits)
        if response.prompt_logprobs and len(response.prompt_logprobs) > limits.max_model_len:
            raise BadRequest(
                f"prompt_logprobs length ({len(response.prompt_logprobs)}) in response '{response.request_id}' "
                f"exceeds max_model_len ({limits.max_model_len})."
            )


def check_logprobs(logprobs: LogProbs | None, index: int, limits: Limits) -> None:
    """Bound the logprobs of one choice, in positions and in candidates."""
    if logprobs is None or not logprobs.content:
        return
    if len(logprobs.content) > limits.max_model_len:
        raise BadRequest(
            f"logprobs.content length ({len(logprobs.content)}) in choice {index} exceeds "
            f"max_model_len ({limits.max_model_len})."
        )
    if limits.max_logprobs < 0:
        return
    for position in logprobs.content:
        if len(position.top_logprobs) > limits.max_logprobs:
            raise BadRequest(
                f"top_logprobs count ({len(position.top_logprobs)}) in choice {index} exceeds "
                f"max_logprobs ({limits.max_logprobs})."
            )


def check_prompt_ids(prompt_token_ids: Sequence[int] | None, limits: Limits) -> None:
    """Bound the prompt ids that a caller sends along."""
    if prompt_token_ids is not None and len(prompt_token_ids) > limits.max_model_len:
        raise BadRequest(
            f"prompt_token_ids length ({len(prompt_token_ids)}) exceeds max_model_len ({limits.max_model_len})."
        )


def check_shown_ids(count: int) -> None:
    """Bound what an answer repeats of its prompts: ``count`` ids, those of a prompt for each of its choices.

    Raises:
        BadRequest: names the field.
    """
    if count > MAX_SHOWN_IDS:
        raise BadRequest(
            f"return_token_ids would repeat {count} token ids of prompts, one time for each choice; "
            f"at most {MAX_SHOWN_IDS} are shown",
            "return_token_ids",
        )


def check_decoded_ids(count: int, limits: Limits) -> None:
    """Bound the ids of ``/detokenize``, which no context holds.

    Raises:
        BadRequest: says how many may be sent.
    """
    most = max(2 * limits.max_model_len, MAX_DECODED_IDS)
    if count > most:
        raise BadRequest(f"tokens hold {count} ids; at most {most} are turned into text", "tokens")


def check_stream_length(chunks: Sequence[GenerateChunk], prompt: int, prior: int, limits: Limits) -> None:
    """Bound a chat stream: ``prompt`` and ``prior`` output tokens and these chunks together fit the context.

    Raises:
        BadRequest: says all three counts.
    """
    delta = sum(len(choice.token_ids or ()) for chunk in chunks for choice in chunk.choices)
    if prompt + prior + delta > limits.max_model_len:
        raise BadRequest(
            f"prompt_token_ids length ({prompt}) plus output_token_ids length ({prior}) plus delta ({delta}) "
            f"exceeds max_model_len ({limits.max_model_len})."
        )


def check_chunk(chunk: GenerateChunk, limits: Limits) -> None:
    """Refuse ids that no tokenizer can hold, and too many logprobs, in one stream chunk.

    Raises:
        BadRequest: names the field.
    """
    for choice in chunk.choices:
        check_ids(choice.token_ids, "generate_chunk.choices.0.token_ids")
        check_logprobs(choice.logprobs, choice.index, limits)


def check_state_ids(state: StreamState) -> None:
    """Refuse ids that no tokenizer can hold in a stream state.

    Raises:
        BadRequest: names the field.
    """
    check_ids(state.output_token_ids, "stream_state.output_token_ids")
    check_ids(state.logprob_context_token_ids, "stream_state.logprob_context_token_ids")


def check_ids(ids: Sequence[int] | None, where: str) -> None:
    """Refuse ids below 0 or above 32 bits.

    Raises:
        BadRequest: names the field.
    """
    if ids and (min(ids) < 0 or max(ids) > MAX_TOKEN_ID):
        raise BadRequest(f"{where} must hold token ids between 0 and {MAX_TOKEN_ID}", where)


def check_count(count: int | None, where: str) -> None:
    """Refuse a token count that cannot be one.

    Raises:
        BadRequest: negative or absurdly large.
    """
    if count is not None and not 0 <= count <= MAX_COUNT:
        raise BadRequest(f"{where} must be a token count between 0 and {MAX_COUNT}, not {count}", where)


def check_odd_parts(body: Mapping[str, Any]) -> None:
    """Bound what a request holds of parts that vLLM's types cannot read, or read at length, before they do.

    vLLM has no such limits: its unions of message and part types try every
    branch on each, which takes some 20 microseconds for a few bytes.

    Raises:
        BadRequest: there are more than ``MAX_ODD_PARTS`` of one kind.
    """
    messages = body.get("messages")
    if isinstance(messages, list):
        _bound(sum(map(_is_no_message, messages)), "messages without a role and a content", "messages")
        _bound(sum(map(_odd_parts, messages)), "content parts that are neither text nor an object", "messages")
    for name in ("chat_template_kwargs", "vllm_xargs"):
        arguments = body.get(name)
        if isinstance(arguments, Mapping):
            _bound(len(arguments), "arguments", name)


def _bound(count: int, what: str, where: str) -> None:
    if count > MAX_ODD_PARTS:
        raise BadRequest(f"{where} hold {count} {what}; at most {MAX_ODD_PARTS} are read", where)


def _is_no_message(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return True
    # Only the assistant may say nothing: it may call a tool instead.
    return "content" not in message and message["role"] != "assistant"


def _odd_parts(message: Any) -> int:
    content = message.get("content") if isinstance(message, dict) else None
    return sum(not isinstance(part, str | dict) for part in content) if isinstance(content, list) else 0
