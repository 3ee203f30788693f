"""How a model is served: the options that change answers, and what its answers may cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CONTENT_FORMATS = ("auto", "string", "openai")

# What short work reads at most: of a body, of what a state expands to. A few milliseconds, on any endpoint.
SHORT_BYTES = 32 * 1024
# What a deployment of the relay may let through to the engine, by the names of the client's fields.
PASSABLE = ("kv_transfer_params", "ec_transfer_params", "priority", "cache_salt", "vllm_xargs")


@dataclass(frozen=True, eq=False, repr=False)
class ModelOptions:
    """How a model is served: the flags of ``vllm launch render`` that change answers.

    ``generation_config`` is "auto" (the model's own), "vllm" (no defaults) or
    a folder that holds one. ``system_start_date`` (YYYY-MM-DD) pins the date
    in the system message of gpt-oss models; None means today.
    ``parser_step`` says how a streamed chunk of several tokens goes through a
    parser: "chunk" for all at once, as vLLM does it, "token" for one by one,
    which is how parsers lose least.
    ``parser_budget`` is the CPU time in seconds that the parsers of one derender
    call may take, 0 for any; ``replay_budget`` what the replay of a state may take
    that this deployment did not sign, 0 for as much.
    ``tokenizer_mode`` is vLLM's: "hf", "mistral" or "auto".
    ``one_shot_prompt`` says whose prompt ids tell a one-shot parser where the
    output begins: "response" for those in the engine's answer only, as vLLM
    does it, "request" for those of the derender request where the answer has
    none (vLLM's issue 53284).
    With ``short`` only work that is surely short is done; what may take longer
    raises ``LongWork``.
    ``tool_strict_level``, ``reasoning_effort_map`` and ``override_generation_config`` are vLLM's: the floor of
    what tool calls are constrained to, the efforts that a template knows by other words, and sampling defaults
    that win over those of ``generation_config``.
    ``parser_family`` says whether a tool parser and a chat template of different families are refused
    ("checked") or served ("any", as vLLM does it).
    ``chunk_form`` says how derender writes: "vllm", or "openai" for clients that pass chunks on: no nulls in deltas,
    and the cached tokens that the engine counted.
    ``prompts`` says what render does where vLLM loses words or constraints of a request: "vllm" for as vLLM, "repaired"
    for keeping them; None is "vllm" at the render endpoints and "repaired" in the relay.
    ``audit`` says what becomes of the findings about parsed answers: "off"
    for no audit, "metrics" to count them, "response" to show them as well.
    ``answers`` says how parsed answers are read: "vllm" as vLLM reads them,
    "repaired" so that nothing is lost (``core.choice.repair``), "auto" as vLLM
    on the derender endpoints and repaired on the relay.
    ``encode_cache_bytes`` bounds the texts that are kept with their ids, so as
    not to be encoded again; it changes no answer.
    """

    served_names: Sequence[str]
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    enable_auto_tool_choice: bool = False
    chat_template: str | None = None
    chat_template_content_format: str = "auto"
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    trust_request_chat_template: bool = False
    exclude_tools_when_tool_choice_none: bool = False
    max_model_len: int | None = None
    max_logprobs: int = 20
    max_n_sequences: int = 16384
    generation_config: str = "auto"
    override_generation_config: Mapping[str, Any] = field(default_factory=dict)
    tool_strict_level: str | None = None
    reasoning_effort_map: Mapping[str, str] = field(default_factory=dict)
    system_start_date: str | None = None
    stream_state: str = "checkpoint"
    state_keys: Sequence[str] = ()
    state_signature_required: bool = True
    one_shot_prompt: str = "response"
    tokenizer_mode: str = "auto"
    parser_step: str = "chunk"
    parser_budget: float = 10.0
    replay_budget: float = 2.0
    parser_family: str = "any"
    prompts: str | None = None
    chunk_form: str = "vllm"
    audit: str = "metrics"
    answers: str = "auto"
    encode_cache_bytes: int = 16 * 1024 * 1024
    short: bool = False
