"""Model: everything that is loaded for one deployment, and what every endpoint function takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.bounds import Limits
from core.bundle.folder import FolderFiles, ModelFiles
from core.bundle.model_config import ModelConfig, read_model_config
from core.errors import ConfigurationError, ModelNotFound
from core.state.fingerprint import STATE_VERSION, fingerprint
from core.text.stop import EosTokens
from core.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from core.parsing.chat_parser import ChatParser
    from core.render.renderer import Renderer
    from core.state.signature import StateSigner

# vLLM's fallback for a model that declares no context length.
_DEFAULT_MODEL_LEN = 2048
# Whose answers ours are compared with, and whose parsers the slice holds.
VLLM_VERSION = "0.33.0"
CONTENT_FORMATS = ("auto", "string", "openai")


@dataclass(frozen=True)
class ModelOptions:
    """How a model is served: the flags of ``vllm launch render`` that change answers.

    ``generation_config`` is "auto" (the model's own), "vllm" (no defaults) or
    a folder that holds one. ``system_start_date`` (YYYY-MM-DD) pins the date
    in the system message of gpt-oss models; None means today.
    ``parser_step`` says how a streamed chunk of several tokens goes through a
    parser: "chunk" for all at once, as vLLM does it, "token" for one by one,
    which is how parsers lose least.
    ``tokenizer_mode`` is vLLM's: "hf", "mistral" or "auto".
    ``one_shot_prompt`` says whose prompt ids tell a one-shot parser where the
    output begins: "response" for those in the engine's answer only, as vLLM
    does it, "request" for those of the derender request where the answer has
    none (vLLM's issue 53284).
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
    system_start_date: str | None = None
    stream_state: str = "checkpoint"
    state_keys: Sequence[str] = ()
    state_signature_required: bool = True
    one_shot_prompt: str = "response"
    tokenizer_mode: str = "auto"
    parser_step: str = "chunk"


@dataclass(frozen=True)
class Model:
    """A loaded model. Never changed once built; safe to share between requests and threads."""

    options: ModelOptions
    origin: str
    config: ModelConfig
    tokenizer: Tokenizer
    eos: EosTokens
    limits: Limits
    chat_parser: ChatParser | None
    signer: StateSigner | None
    files: ModelFiles

    @cached_property
    def stream_config(self) -> str:
        """The fingerprint of what shapes a stream's output in this deployment; in a stream state, ``config``."""
        options = self.options
        return fingerprint(
            {
                **({"step": options.parser_step} if options.parser_step != "chunk" else {}),
                "state": STATE_VERSION,
                "vllm": VLLM_VERSION,
                "tokenizer": self.files.digest(self.tokenizer.source_file),
                "parsers": [options.tool_call_parser, options.reasoning_parser, options.enable_auto_tool_choice],
                "template": dict(options.default_chat_template_kwargs),
                "model_type": self.config.model_type,
            }
        )

    @property
    def name(self) -> str:
        """The first served name: what a response shows when the request names no model."""
        return self.options.served_names[0]

    @cached_property
    def renderer(self) -> Renderer:
        """The rendering half, built when it is first wanted: a deployment that only derenders never loads it."""
        from core.render.renderer import build_renderer

        return build_renderer(self)

    @property
    def is_harmony(self) -> bool:
        return self.config.model_type == "gpt_oss"

    def resolve_name(self, requested: str | None) -> str:
        """The model name for a response.

        Raises:
            ModelNotFound: the requested name is not served here.
        """
        if not requested:
            return self.name
        if requested not in self.options.served_names:
            aliases = ", ".join(self.options.served_names)
            raise ModelNotFound(f"The model `{requested}` does not exist. Valid aliases: {aliases}.", "model")
        return requested


def load_model(files: ModelFiles, options: ModelOptions) -> Model:
    """Load a model for serving.

    Raises:
        ConfigurationError: the files or the options cannot work; says which and why.
    """
    if not options.served_names:
        raise ConfigurationError("served_model_name: at least one name is needed")
    if options.chat_template_content_format not in CONTENT_FORMATS:
        raise ConfigurationError(
            f"chat_template_content_format must be one of {', '.join(CONTENT_FORMATS)}, "
            f"not {options.chat_template_content_format!r}"
        )
    config = _with_generation_config(read_model_config(files), options.generation_config)
    tokenizer = load_tokenizer(files, config, mode=options.tokenizer_mode)
    limits = Limits(
        max_model_len=_max_model_len(config, options),
        max_n_sequences=options.max_n_sequences,
        max_logprobs=options.max_logprobs,
    )
    return Model(
        options=options,
        origin=files.origin,
        config=config,
        tokenizer=tokenizer,
        eos=_eos_tokens(config, tokenizer),
        limits=limits,
        chat_parser=_chat_parser(config, tokenizer, options, limits),
        signer=_signer(options),
        files=files,
    )


def _chat_parser(config: ModelConfig, tokenizer: Tokenizer, options: ModelOptions, limits: Limits) -> ChatParser | None:
    # A harmony model is always parsed; no other one is unless a parser is named.
    if config.model_type != "gpt_oss" and not options.tool_call_parser and not options.reasoning_parser:
        return None
    # vLLM's parser modules are a good part of a cold start: only a deployment that parses pays for them.
    from core.parsing.chat_parser import load_chat_parser

    return load_chat_parser(config, tokenizer, options, limits.max_model_len)


def _with_generation_config(config: ModelConfig, choice: str) -> ModelConfig:
    """``config`` with the generation configuration of another folder, when ``choice`` names one."""
    if choice in ("auto", "vllm"):
        return config
    other = read_model_config(FolderFiles(Path(choice)))
    return replace(config, generation_config=other.generation_config or other.config)


def _signer(options: ModelOptions) -> StateSigner | None:
    if not options.state_keys:
        return None
    from core.state.signature import StateSigner

    return StateSigner(options.state_keys, options.state_signature_required)


def _max_model_len(config: ModelConfig, options: ModelOptions) -> int:
    declared = config.max_model_len
    if options.max_model_len is None:
        return declared or _DEFAULT_MODEL_LEN
    if options.max_model_len < 1:
        raise ConfigurationError(f"max_model_len must be at least 1, not {options.max_model_len}")
    if declared is not None and options.max_model_len > declared:
        raise ConfigurationError(
            f"max_model_len ({options.max_model_len}) is greater than the model's own limit ({declared})"
        )
    return options.max_model_len


def _eos_tokens(config: ModelConfig, tokenizer: Tokenizer) -> EosTokens:
    """The tokens on which an engine with this model stops by itself."""
    primary = tokenizer.eos_token_id
    # Without a generation_config.json the model's own configuration stands in for it.
    source = config.generation_config or config.config
    named = source.get("eos_token_id")
    every = {named} if isinstance(named, int) else set(named or ())
    if primary is not None:
        every.add(primary)
    return EosTokens(primary=primary, every=frozenset(every))
