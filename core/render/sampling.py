"""Sampling parameters: the request's, filled up with the deployment's defaults, in the form that engines read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from core.bounds import Limits
from core.bundle.model_config import ModelConfig
from core.errors import BadRequest, ConfigurationError
from core.options import ModelOptions
from core.upstream.sampling import get_max_tokens

# What vLLM takes from a generation configuration (``ModelConfig.get_diff_sampling_param``).
_TAKEN = (
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "max_new_tokens",
    "skip_special_tokens",
)


@dataclass(frozen=True)
class SamplingDefaults:
    """What a request that says nothing gets, by vLLM's names, and the most tokens that one may ask for."""

    values: Mapping[str, Any]
    max_tokens: int | None


def sampling_defaults(config: ModelConfig, options: ModelOptions) -> SamplingDefaults:
    """The defaults of a deployment.

    ``generation_config`` "vllm" means none; any other value takes them from
    the generation configuration that was loaded, or from ``config.json``
    where there is none; ``override_generation_config`` wins over both. Only
    that of a folder of its own, or an override, limits ``max_tokens``, as in vLLM.

    Raises:
        ConfigurationError: an override is no number.
    """
    overrides = options.override_generation_config
    for name in _TAKEN:
        if not isinstance(overrides.get(name), int | float | None):
            raise ConfigurationError(f"override_generation_config: {name} must be a number, not {overrides[name]!r}")
    source = {} if options.generation_config == "vllm" else config.generation_config or config.config
    source = {**source, **overrides}
    values = {name: source[name] for name in _TAKEN if source.get(name) is not None}
    if "max_new_tokens" in values:
        values["max_tokens"] = values.pop("max_new_tokens")
    own_folder = options.generation_config not in ("auto", "vllm")
    return SamplingDefaults(values, values.get("max_tokens") if own_folder else overrides.get("max_new_tokens"))


def check_beam_search(request: Any) -> None:
    """Refuse beam search, for which there is no request to an engine.

    Raises:
        BadRequest: the request asks for it.
    """
    if request.use_beam_search:
        raise BadRequest("Beam search is not supported by the render endpoint")


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters on the wire, and the transfer parameters beside them; ``source`` is vLLM's own form."""

    source: Any
    params: dict[str, Any]
    kv_transfer_params: dict[str, Any] | None
    ec_transfer_params: dict[str, Any] | None


def resolve_sampling(
    request: Any,
    requested: int | None,
    prompt_length: int,
    defaults: SamplingDefaults,
    limits: Limits,
    truncation: int | None,
) -> Sampling:
    """The parameters for one prompt of ``prompt_length`` tokens.

    ``requested`` is the request's own limit of output tokens, ``truncation``
    the length that its prompt was cut to (None: it was not; -1: to what fits).

    Raises:
        Exception: a value is out of its range, or nothing is left for the output.
    """
    max_tokens = get_max_tokens(
        limits.max_model_len,
        requested,
        prompt_length,
        dict(defaults.values),
        defaults.max_tokens,
        truncate_prompt_tokens=truncation,
    )
    params = request.to_sampling_params(max_tokens, dict(defaults.values))
    if params.n > limits.max_n_sequences:
        raise BadRequest(
            f"n must be at most {limits.max_n_sequences}, got {params.n}. To increase this limit, set the "
            f"VLLM_MAX_N_SEQUENCES environment variable."
        )
    # Only values that differ from their defaults are written; names with an underscore are the engine's own.
    written = {name: value for name, value in msgspec.to_builtins(params, str_keys=True).items() if name[0] != "_"}
    # An engine that is not told gives all that its context holds: the default of these parameters means another there.
    written["max_tokens"] = params.max_tokens
    extra = dict(written.get("extra_args") or {})
    transfer = extra.pop("kv_transfer_params", None), extra.pop("ec_transfer_params", None)
    # vLLM hands these over beside the sampling parameters; the engine puts them back.
    if extra:
        written["extra_args"] = extra
    elif written.get("extra_args"):
        del written["extra_args"]
    return Sampling(params, written, *transfer)
