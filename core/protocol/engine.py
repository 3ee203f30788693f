"""What a token-in/token-out engine answers: the ``tokens`` output mode of ``/inference/v1/generate``.

Field names and defaults are vLLM 0.33.0's. Two wire shapes of logprobs are
read: integer ``token_id`` (current), and ``"token": "token_id:N"`` (older
engines). Fields that derender only passes on are checked for form and kept;
unknown ones are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from core.protocol.lists import MAX_CHOICES, MAX_IDS, Ids, PromptIds, empty

_PLACEHOLDER = "token_id:"

# A probability may be zero, so -Infinity has a meaning; JSON has no spelling of it and vLLM clamps it.
Finite = Annotated[float, Field(allow_inf_nan=False)]


def _no_negative_ids(ids: list[int] | None) -> list[int] | None:
    if ids and min(ids) < 0:
        raise ValueError("token_ids must not contain negative values")
    return ids


TokenIds = Annotated[Ids | None, AfterValidator(_no_negative_ids)]


@dataclass(slots=True, kw_only=True)
class LogProb:
    """One candidate: an id, its log probability, its rank in the vocabulary.

    An answer holds up to some hundred thousand of them: without a dictionary
    each, they take a third of the memory.
    """

    token_id: int | None = None
    token: str | None = None
    logprob: Finite
    rank: int | None = None

    @property
    def resolved_id(self) -> int:
        """The id in either wire shape.

        Raises:
            ValueError: neither shape is there.
        """
        if self.token_id is not None:
            return self.token_id
        token = self.token or ""
        digits = token.removeprefix(_PLACEHOLDER)
        if token.startswith(_PLACEHOLDER) and digits.isascii() and digits.isdecimal() and len(digits) <= 20:
            return int(digits)
        raise ValueError("logprobs: each entry needs an integer token_id")


@dataclass(slots=True, kw_only=True)
class PositionLogProbs(LogProb):
    """The sampled token of one position, and the candidates in the engine's order."""

    top_logprobs: Annotated[list[LogProb], Field(fail_fast=True)] = field(default_factory=empty)


class LogProbs(BaseModel):
    """Logprobs of one choice, one entry for each output token."""

    content: Annotated[list[PositionLogProbs], Field(max_length=MAX_IDS, fail_fast=True)] | None = None


@dataclass(slots=True, kw_only=True)
class WeightVersionSpan:
    """Output tokens ``[start, end)`` were sampled by the weights called ``version``."""

    version: str
    start: int
    end: int


@dataclass(slots=True, kw_only=True)
class Logprob:
    """A prompt logprob as engines write it."""

    logprob: Finite
    rank: int | None = None
    decoded_token: str | None = None


class _ChoiceFields(BaseModel, defer_build=True):
    index: int
    stop_reason: int | str | None = None
    logprobs: LogProbs | None = None
    routed_experts: str | None = None
    sampling_mask: Annotated[list[Ids], Field(max_length=MAX_IDS, fail_fast=True)] | None = None
    weight_versions: Annotated[list[WeightVersionSpan], Field(fail_fast=True)] | None = None


class Choice(_ChoiceFields, defer_build=False):
    """A finished output sequence. A missing ``finish_reason`` means "stop", as in vLLM."""

    finish_reason: str | None = "stop"
    token_ids: TokenIds = None


class StreamChoice(_ChoiceFields, defer_build=False):
    """What one chunk adds to an output sequence. Its ids are checked by ``core.bounds``."""

    finish_reason: str | None = None
    token_ids: Ids | None = None


class PromptTokensDetails(BaseModel):
    cached_tokens: int | None = None
    created_cache_tokens: int | None = None
    multimodal_tokens: dict[str, int] | None = None


class CompletionTokensDetails(BaseModel):
    reasoning_tokens: int = 0


class Usage(BaseModel):
    """Token counts as the engine reports them."""

    model_config = ConfigDict(extra="allow")

    prompt_tokens: int = 0
    total_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


class SpeculativeDecoding(BaseModel):
    """How many of the drafted tokens one request accepted, passed on as it is."""

    model_config = ConfigDict(extra="allow")

    mean_acceptance_length: Finite
    draft_acceptance_rate: Finite
    acceptance_histogram: list[int]
    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int
    num_spec_tokens: int
    per_step_accepted: list[int] | None = None
    per_step_drafted: list[int] | None = None


class Metrics(BaseModel):
    """Timings of one request, passed on as they are."""

    model_config = ConfigDict(extra="allow")

    time_to_first_token_ms: Finite | None = None
    generation_time_ms: Finite | None = None
    queue_time_ms: Finite | None = None
    mean_itl_ms: Finite | None = None
    tokens_per_second: Finite | None = None
    speculative_decoding: SpeculativeDecoding | None = None


@dataclass(slots=True, kw_only=True)
class PlaceholderRange:
    """Where a picture's tokens stand in a prompt, in tokens."""

    # A dataclass without a docstring gets its signature for one, which costs a start 10 ms.
    offset: Annotated[int, Field(ge=0)]
    length: Annotated[int, Field(gt=0)]


class _ResponseFields(BaseModel, defer_build=True):
    request_id: str | None = None
    output_mode: Literal["tokens"] = "tokens"
    usage: Usage | None = None
    prompt_token_ids: PromptIds | None = None
    mm_placeholders: dict[str, Annotated[list[PlaceholderRange], Field(fail_fast=True)]] | None = None
    metrics: Metrics | None = None


class GenerateResponse(_ResponseFields, defer_build=False):
    """A complete answer of the engine for one prompt."""

    choices: Annotated[list[Choice], Field(max_length=MAX_CHOICES, fail_fast=True)]
    model: str | None = None
    created: int | None = None
    prompt_logprobs: Annotated[list[dict[int, Logprob] | None], Field(max_length=MAX_IDS, fail_fast=True)] | None = None
    prompt_token_id_logprobs: str | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None


class GenerateChunk(_ResponseFields, defer_build=False):
    """One SSE chunk of the engine: at most one choice, or usage alone."""

    choices: Annotated[list[StreamChoice], Field(max_length=MAX_CHOICES, fail_fast=True)]
