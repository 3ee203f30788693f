"""What is read of a `/inference/v1/generate` request, and what is refused of it.

Keys that make no difference here are accepted and ignored, as are unknown ones.
"""

from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, Field, model_validator

from tests.engine.errors import EngineError
from tests.engine.features import check_content_parts, check_features

MAX_LOGPROBS = 20
MAX_CHOICES = 256
GREEDY = 1e-5
"""Temperatures below this mean greedy sampling."""


class SamplingParams(BaseModel):
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    extra_args: dict[str, Any] | None = None

    @property
    def stop_strings(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def check(self) -> None:
        """Raise EngineError where vLLM refuses a value."""

        def refuse(message: str, name: str | None = None) -> None:
            detail = f" (parameter={name}, value={getattr(self, name)})" if name else ""
            raise EngineError(message + detail, name)

        if not 1 <= self.n <= MAX_CHOICES:
            bound = f"at least 1, got {self.n}." if self.n < 1 else f"at most {MAX_CHOICES}, got {self.n}."
            refuse(f"n must be {bound}")
        if self.temperature < 0:
            refuse(f"temperature must be non-negative, got {self.temperature}.", "temperature")
        if self.temperature > 2:
            refuse(f"temperature must be in [0, 2], got {self.temperature}.", "temperature")
        if self.n > 1 and self.temperature < GREEDY:
            refuse(f"n must be 1 when using greedy sampling, got {self.n}.")
        if not 0 < self.top_p <= 1:
            refuse(f"top_p must be in (0, 1], got {self.top_p}.", "top_p")
        if self.max_tokens is not None and self.max_tokens < 1:
            refuse(f"max_tokens must be at least 1, got {self.max_tokens}.", "max_tokens")
        if self.min_tokens < 0:
            refuse(f"min_tokens must be greater than or equal to 0, got {self.min_tokens}.")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            refuse(f"min_tokens must be less than or equal to max_tokens={self.max_tokens}, got {self.min_tokens}.")
        for name, label in (("logprobs", "sample"), ("prompt_logprobs", "prompt")):
            count = getattr(self, name)
            if count is not None and count < -1:
                refuse(f"{name} must be non-negative or -1, got {count}.", name)
            if count is not None and (count > MAX_LOGPROBS or count == -1):
                asked = "the whole vocabulary" if count == -1 else count
                refuse(
                    f"Requested {label} logprobs of {asked}, which is greater than max allowed: {MAX_LOGPROBS}", name
                )
        if any(not text for text in self.stop_strings):
            refuse("stop cannot contain an empty string.")
        if self.stop_strings and not self.detokenize:
            refuse("stop strings are only supported when detokenize is True. Set detokenize=True to use stop.")


class StreamOptions(BaseModel):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class GenerateRequest(BaseModel):
    request_id: str = Field(default_factory=lambda: uuid4().hex[:16])
    token_ids: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    sampling_params: SamplingParams
    model: str | None = None
    features: dict[str, Any] | None = None
    content_parts: list[dict[str, Any]] | None = None

    output_mode: str = "tokens"
    return_token_ids: bool | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    # Accepted, and of no effect: what reached the engine can be looked up.
    cache_salt: str | None = None
    priority: int = 0
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_images(self) -> "GenerateRequest":
        """What vLLM checks of images before it looks at one: counts that agree, and places inside the prompt."""
        if self.content_parts and self.features:
            raise ValueError("content_parts and features are mutually exclusive")
        check_content_parts(self.content_parts or ())
        if self.features is not None:
            check_features(self.features, len(self.token_ids))
        return self
