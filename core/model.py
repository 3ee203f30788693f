"""Model: everything that is loaded for one deployment, and what every endpoint function takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from core.bounds import Limits
from core.bundle.folder import FolderFiles, ModelFiles
from core.bundle.model_config import ModelConfig, read_model_config
from core.errors import ConfigurationError, ModelNotFound
from core.options import CONTENT_FORMATS, ModelOptions
from core.state.fingerprint import STATE_VERSION, fingerprint
from core.text.stop import EosTokens
from core.tokenizer import Tokenizer, load_tokenizer
from core.upstream.version import slice_version

if TYPE_CHECKING:
    from core.parsing.chat_parser import ChatParser
    from core.render.media import ImageReader
    from core.render.renderer import Renderer
    from core.state.signature import StateSigner
    from core.upstream.model_view import ModelView

# What reads the images of a model; None when nobody knows how to.
ImagesOf = Callable[[ModelFiles, ModelConfig, Tokenizer], "ImageReader | None"]
# vLLM's fallback for a model that declares no context length.
_DEFAULT_MODEL_LEN = 2048


@dataclass(frozen=True, eq=False, repr=False)
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
    images: ImageReader | None = None

    @cached_property
    def stream_config(self) -> str:
        """The fingerprint of what shapes a stream's output in this deployment; in a stream state, ``config``."""
        options = self.options
        return fingerprint(
            {
                **({"step": options.parser_step} if options.parser_step != "chunk" else {}),
                **({"answers": options.answers} if options.answers == "repaired" else {}),
                "state": STATE_VERSION,
                "slice": slice_version(),
                "tokenizer": self.files.digest(self.tokenizer.source_file),
                "parsers": [options.tool_call_parser, options.reasoning_parser, options.enable_auto_tool_choice],
                "template": dict(options.default_chat_template_kwargs),
                **({"efforts": dict(options.reasoning_effort_map)} if options.reasoning_effort_map else {}),
                "model_type": self.config.model_type,
            }
        )

    @cached_property
    def _text_configs(self) -> dict[str, str]:
        parts = {
            "state": STATE_VERSION,
            "tokenizer": self.files.digest(self.tokenizer.source_file),
            "mode": type(self.tokenizer).__name__,
            "eos": sorted(self.eos.every),
        }
        return {endpoint: fingerprint({**parts, "endpoint": endpoint}) for endpoint in ("chat", "completions")}

    def text_config(self, endpoint: str) -> str:
        """The fingerprint of what shapes a stream that goes through no parser, at "chat" or at "completions"."""
        return self._text_configs[endpoint]

    @cached_property
    def turn_signer(self) -> StateSigner | None:
        """Signs what callers carry from turn to turn; None without keys."""
        if not self.options.state_keys:
            return None
        from core.state.signature import TURNS, StateSigner  # late: as in ``_signer``

        return StateSigner(self.options.state_keys, self.options.state_signature_required, TURNS)

    @property
    def name(self) -> str:
        """The first served name: what a response shows when the request names no model."""
        return self.options.served_names[0]

    @cached_property
    def renderer(self) -> Renderer:
        """The rendering half, built when it is first wanted: a deployment that only derenders never loads it."""
        from core.render.renderer import build_renderer  # late: vLLM's rendering modules are slow to load

        view = _view(self.config, self.options, self.origin, self.limits)
        return build_renderer(
            self.config, self.options, view, self.tokenizer, self.limits, self.chat_parser, self.images
        )

    @cached_property
    def short(self) -> Model:
        """The same model, for work that is surely short: what may take longer raises ``LongWork``."""
        options = replace(self.options, short=True)
        parser = None if self.chat_parser is None else self.chat_parser.with_options(options)
        return replace(self, options=options, chat_parser=parser)

    def with_options(self, options: ModelOptions) -> Model:
        """The same model served in another way: with other parsers, or another chat template.

        Raises:
            ConfigurationError: the options cannot work.
        """
        parser = _chat_parser(self.config, self.tokenizer, options, self.origin, self.limits)
        return replace(self, options=options, chat_parser=parser)

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


def load_model(files: ModelFiles, options: ModelOptions, images: ImagesOf | None = None) -> Model:
    """Load a model for serving; ``images`` builds what reads its images, where images are read.

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
    if options.reasoning_effort_map:
        from core.upstream.requests import check_effort_map  # late: few deployments have such a map

        check_effort_map(options.reasoning_effort_map)
    config = _with_generation_config(read_model_config(files), options.generation_config)
    tokenizer = load_tokenizer(files, config, mode=options.tokenizer_mode, cache_bytes=options.encode_cache_bytes)
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
        chat_parser=_chat_parser(config, tokenizer, options, files.origin, limits),
        signer=_signer(options),
        files=files,
        images=None if images is None else images(files, config, tokenizer),
    )


def _view(config: ModelConfig, options: ModelOptions, origin: str, limits: Limits) -> ModelView:
    from core.upstream.model_view import view_model  # late: a deployment that only decodes shows vLLM nothing

    return view_model(config, options.served_names[0], origin, limits.max_model_len)


def _chat_parser(
    config: ModelConfig, tokenizer: Tokenizer, options: ModelOptions, origin: str, limits: Limits
) -> ChatParser | None:
    # A harmony model is always parsed; no other one is unless a parser is named.
    if not config.is_harmony and not options.tool_call_parser and not options.reasoning_parser:
        return None
    # Late: vLLM's parser modules are a good part of a cold start, and only a deployment that parses pays for them.
    from core.parsing.chat_parser import load_chat_parser

    view = _view(config, options, origin, limits)
    parser = load_chat_parser(config.is_harmony, view, tokenizer, options)
    if options.parser_family == "checked" and not config.is_harmony and options.enable_auto_tool_choice:
        from core.parsing.families import check_family  # late: see above

        check_family(options.tool_call_parser, _templates(tokenizer, options))
    return parser


def _templates(tokenizer: Tokenizer, options: ModelOptions) -> list[str]:
    """The texts of the chat templates that a deployment writes chats with."""
    templates = tokenizer.chat_template
    if options.chat_template is not None:
        return [options.chat_template]
    return list(templates.values()) if isinstance(templates, dict) else [templates or ""]


def _with_generation_config(config: ModelConfig, choice: str) -> ModelConfig:
    """``config`` with the generation configuration of another folder, when ``choice`` names one."""
    if choice in ("auto", "vllm"):
        return config
    other = read_model_config(FolderFiles(Path(choice)))
    return replace(config, generation_config=other.generation_config or other.config)


def _signer(options: ModelOptions) -> StateSigner | None:
    if not options.state_keys:
        return None
    from core.state.signature import StateSigner  # late: only a deployment with keys needs itsdangerous

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
