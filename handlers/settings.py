"""Settings: environment variables with the prefix ``DERENDER_`` and the name of the flag.

A wrong value stops the start with a message that names it. vLLM's own
variables that change answers keep their names and are read from ``environ``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from core.errors import ConfigurationError
from core.options import PASSABLE, ModelOptions
from core.tokenizer import MODES
from core.upstream.version import vllm_version
from handlers.values import Reader, flag_of, json_object_of, names_of, number_of, seconds_of, values_of
from handlers.variables import refuse_unknown

PREFIX = "DERENDER_"
# AWS_LAMBDA_INITIALIZATION_TYPE where an environment is made ready before its first request is there.
PREPARED = ("snap-start", "provisioned-concurrency")
# No engine is below one of these: the relay appends the path of the endpoint itself.
_ENDPOINT = re.compile(r"/(v1|v2|inference)(/|$)|[?#]")
_ROOT_PATH = re.compile(r"(/[^/?#\s]+)+")
# The settings that take one of a few words.
CHOICES = {
    "stream_state": ("checkpoint", "replay"),
    "state_signature": ("required", "optional"),
    "one_shot_prompt": ("response", "request"),
    "parser_step": ("chunk", "token"),
    "audit": ("off", "metrics", "response"),
    "answers": ("auto", "vllm", "repaired"),
    "tokenizer_mode": MODES,
    "parser_family": ("checked", "any"),
    "fast_encoder": ("auto", "off", "on"),
    "prompts": (None, "vllm", "repaired"),
    "chunk_form": ("vllm", "openai"),
    "tool_strict_level": (None, "auto", "function", "parameter"),
    "request_log": ("off", "errors", "all"),
    "log_format": (None, "json", "text", "cloudwatch"),
    "content_parts": ("never", "asked", "always"),
    "continue_turns": ("off", "exact", "template", "append"),
}
# Lambda's own limit on a buffered invoke is 6 MB; a server may be given more.
DEFAULT_MAX_BODY_BYTES = 64 * 1024 * 1024
# A long prompt in a long queue; a proxy's idle time-out is rarely below half a minute.
DEFAULT_ENGINE_TIMEOUT = 120.0
DEFAULT_KEEP_ALIVE = 15.0
# Megabytes; a process has little more to give.
MAX_TURN_CACHE = 100_000
# One long job leaves another process for the next; each shares the model, and takes some 30 MB of its own.
DEFAULT_WORK_PROCESSES = 2
DEFAULT_WORK_DEADLINE = 30.0
DEFAULT_WORK_QUEUE = 64
# Bodies come from services nearby; and what is held of them at once is four of the largest.
DEFAULT_HEADER_TIMEOUT = 10.0
DEFAULT_BODY_TIMEOUT = 60.0
DEFAULT_MAX_CONNECTIONS = 1000
DEFAULT_MAX_BYTES_IN_FLIGHT = 4 * DEFAULT_MAX_BODY_BYTES
_SECONDS = ("work_deadline", "header_timeout", "body_timeout", "drain_timeout", "parser_budget", "replay_budget")
# Below the half minute that Kubernetes gives a pod by default.
DEFAULT_DRAIN_TIMEOUT = 20.0


@dataclass(frozen=True, eq=False, repr=False)
class Settings:
    """One deployment. Flags of ``vllm launch render`` keep their names and meaning.

    ``model`` is a model folder, a bundle or a bundle's ``s3://bucket/prefix``; ``tokenizer`` another one that the
    tokenizer and its chat template are read from. ``chat_template`` is a file or, when
    it holds a newline or a template tag, the template itself. ``state_key``
    lists the keys that sign stream states: the first signs, all are accepted;
    with ``state_signature`` "optional" an unsigned state is accepted too.
    ``one_shot_prompt``, ``parser_family``, ``parser_step``, ``parser_budget``, ``replay_budget``, ``prompts``,
    ``chunk_form``, ``audit``, ``answers``, ``tokenizer_mode`` and ``encode_cache_bytes`` are described with
    ``ModelOptions``.
    ``fast_encoder`` says whether the encoder of ``core.tokenizer.fast`` is used where it is proved equal: "auto" for
    beside a server that answers, and in a Lambda function only before a snapshot; "on" for from the start.
    ``max_response_bytes`` is what a Lambda function may answer, None for no
    limit; ``request_log`` says which requests get a line in the log, ``log_format`` what lines look like: with
    CloudWatch's metrics in a Lambda function and without them elsewhere, unless it says otherwise.
    ``engine_url`` lists the token engines of the relay, in the order in which
    they are tried; without any there is no relay. ``engine_model`` is the
    name that the engines serve the model by, None for the one that a client
    gives, ``engine_params`` the fields of a client that reach them (``core.relay.passing``). ``engine_timeout`` is how
    many seconds an engine may be silent, ``sse_keep_alive_interval`` after how
    many a silent stream gets a comment (0: never). With ``api_key`` every
    request needs one of these bearer keys.
    ``continue_turns`` is the policy by which the relay continues conversations token for token (``core.turns``),
    ``turn_cache`` the megabytes in which it keeps last turns, 0 for none.
    ``allowed_media_domains`` are the hosts that images are fetched from.
    ``media_model_id`` is what image hashes are taken with: the engine's model
    argument, None for ``model`` as given. ``content_parts`` says when images go
    to the engine as they came, and with ``refuse_media_uuids`` no client may
    choose the key of an image in the engine's caches.
    ``drain_timeout`` is how many seconds a server that was told to end gives
    what runs.
    ``work_processes`` is how many processes a server gives to long work (0:
    none, and everything is done on its event loop), ``work_deadline`` how many
    seconds of CPU time a request may take there (0: any), ``work_queue`` how
    many may wait for it.
    ``header_timeout`` and ``body_timeout`` are the seconds in which a server
    wants a request's headers and its body (0: any), ``max_connections`` and
    ``max_bytes_in_flight`` how many connections and bytes of bodies it holds.
    ``root_path`` is what a gateway puts before the paths (a stage, a base path), and leaves there.
    ``vllm_version`` names the slice of vLLM, None for the newest; it was chosen
    before these settings are read (``handlers.slices``). With
    ``require_engine_version`` the relay does not start with engines of another version.
    With ``ready_with_engine`` a server is ready while an engine answers, with ``playground`` it has the page
    that shows how an answer is split, with ``docs`` one of its endpoints. ``otlp_traces_endpoint`` is where spans go.
    ``environ`` is where vLLM's own variables are read from.
    """

    model: str
    tokenizer: str | None = None
    served_model_name: Sequence[str] = ()
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    parser_family: str = "checked"
    enable_auto_tool_choice: bool = False
    tool_strict_level: str | None = None
    chat_template: str | None = None
    chat_template_content_format: str = "auto"
    default_chat_template_kwargs: Mapping[str, Any] | None = None
    reasoning_effort_map: Mapping[str, Any] | None = None
    trust_request_chat_template: bool = False
    exclude_tools_when_tool_choice_none: bool = False
    max_model_len: int | None = None
    max_logprobs: int = 20
    generation_config: str = "auto"
    override_generation_config: Mapping[str, Any] | None = None
    stream_state: str = "checkpoint"
    state_key: Sequence[str] = ()
    state_signature: str = "required"
    one_shot_prompt: str = "response"
    parser_step: str = "chunk"
    parser_budget: float = 10.0
    replay_budget: float = 2.0
    prompts: str | None = None
    chunk_form: str = "vllm"
    audit: str = "metrics"
    answers: str = "auto"
    tokenizer_mode: str = "auto"
    fast_encoder: str = "auto"
    encode_cache_bytes: int = ModelOptions.encode_cache_bytes
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    max_response_bytes: int | None = None
    request_log: str = "off"
    log_format: str | None = None
    engine_url: Sequence[str] = ()
    engine_api_key: str | None = field(default=None, repr=False)
    engine_model: str | None = None
    engine_params: Sequence[str] = ()
    engine_timeout: float = DEFAULT_ENGINE_TIMEOUT
    continue_turns: str = "off"
    turn_cache: int = 0
    sse_keep_alive_interval: float = DEFAULT_KEEP_ALIVE
    drain_timeout: float = DEFAULT_DRAIN_TIMEOUT
    work_processes: int = DEFAULT_WORK_PROCESSES
    work_deadline: float = DEFAULT_WORK_DEADLINE
    work_queue: int = DEFAULT_WORK_QUEUE
    header_timeout: float = DEFAULT_HEADER_TIMEOUT
    body_timeout: float = DEFAULT_BODY_TIMEOUT
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    max_bytes_in_flight: int = DEFAULT_MAX_BYTES_IN_FLIGHT
    api_key: Sequence[str] = field(default=(), repr=False)
    allowed_media_domains: Sequence[str] = ()
    media_model_id: str | None = None
    content_parts: str = "asked"
    refuse_media_uuids: bool = False
    root_path: str = ""
    vllm_version: str | None = None
    require_engine_version: bool = False
    otlp_traces_endpoint: str | None = None
    docs: bool = False
    playground: bool = False
    ready_with_engine: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigurationError(f"{PREFIX}MODEL must name a model folder or bundle")
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                words = ", ".join(filter(None, choices))
                raise ConfigurationError(f"{PREFIX}{name.upper()} must be one of {words}, not {value!r}")
        if self.root_path and not _ROOT_PATH.fullmatch(self.root_path):
            raise ConfigurationError(
                f"{PREFIX}ROOT_PATH must begin with a slash and not end with one, not {self.root_path!r}"
            )
        if self.max_body_bytes < 1:
            raise ConfigurationError(f"{PREFIX}MAX_BODY_BYTES must be at least 1, not {self.max_body_bytes}")
        if self.encode_cache_bytes < 0:
            raise ConfigurationError(f"{PREFIX}ENCODE_CACHE_BYTES must be at least 0, not {self.encode_cache_bytes}")
        if self.max_response_bytes is not None and self.max_response_bytes < 1024:
            raise ConfigurationError(f"{PREFIX}MAX_RESPONSE_BYTES must be at least 1024, not {self.max_response_bytes}")
        for url in self.engine_url:
            if not _is_address(url):
                raise ConfigurationError(f"{PREFIX}ENGINE_URL must hold http:// or https:// addresses, not {url!r}")
            if _ENDPOINT.search(url):
                raise ConfigurationError(
                    f"{PREFIX}ENGINE_URL must hold addresses of engines, without the path of an endpoint, not {url!r}"
                )
        if self.engine_api_key is not None and not self.engine_api_key.isascii():
            raise ConfigurationError(f"{PREFIX}ENGINE_API_KEY must hold ASCII characters only")
        for name in self.engine_params:
            if name not in PASSABLE:
                raise ConfigurationError(f"{PREFIX}ENGINE_PARAMS must hold {', '.join(PASSABLE)}, not {name!r}")
        if not 0 < self.engine_timeout < float("inf"):
            raise ConfigurationError(
                f"{PREFIX}ENGINE_TIMEOUT must be a number of seconds above 0, not {self.engine_timeout}"
            )
        if not 0 <= self.turn_cache <= MAX_TURN_CACHE:
            raise ConfigurationError(
                f"{PREFIX}TURN_CACHE must be megabytes between 0 and {MAX_TURN_CACHE}, not {self.turn_cache}"
            )
        if self.turn_cache and self.continue_turns == "off":
            raise ConfigurationError(
                f"{PREFIX}TURN_CACHE (--turn-cache) requires {PREFIX}CONTINUE_TURNS (--continue-turns)"
            )
        for name in ("work_processes", "work_queue"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{PREFIX}{name.upper()} must be at least 0, not {getattr(self, name)}")
        for name in _SECONDS:
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigurationError(
                    f"{PREFIX}{name.upper()} must be a number of seconds, not {getattr(self, name)}"
                )
        for name in ("max_connections", "max_bytes_in_flight"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{PREFIX}{name.upper()} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.sse_keep_alive_interval < float("inf"):
            raise ConfigurationError(
                f"{PREFIX}SSE_KEEP_ALIVE_INTERVAL must be a number of seconds, not {self.sse_keep_alive_interval}"
            )
        if self.vllm_version is not None and self.vllm_version != vllm_version():
            raise ConfigurationError(
                f"{PREFIX}VLLM_VERSION is {self.vllm_version}, and this process runs with the slice of {vllm_version()}"
            )
        for name in ("require_engine_version", "ready_with_engine"):
            if getattr(self, name) and not self.engine_url:
                raise ConfigurationError(
                    f"{PREFIX}{name.upper()} (--{name.replace('_', '-')}) requires {PREFIX}ENGINE_URL (--engine-url)"
                )
        if self.enable_auto_tool_choice and not self.tool_call_parser:
            raise ConfigurationError(
                f"{PREFIX}ENABLE_AUTO_TOOL_CHOICE (--enable-auto-tool-choice) requires "
                f"{PREFIX}TOOL_CALL_PARSER (--tool-call-parser)"
            )

    @property
    def for_cloudwatch(self) -> bool:
        """Whether lines of the log say which of their fields are CloudWatch's metrics."""
        if self.log_format is not None:
            return self.log_format == "cloudwatch"
        return "AWS_LAMBDA_FUNCTION_NAME" in self.environ

    def warnings(self) -> list[str]:
        """What is legal, and hardly meant."""
        if self.tool_call_parser and not self.enable_auto_tool_choice:
            return [
                "--tool-call-parser (DERENDER_TOOL_CALL_PARSER) has no effect without --enable-auto-tool-choice "
                "(DERENDER_ENABLE_AUTO_TOOL_CHOICE): tools in a request will be refused"
            ]
        return []

    def model_options(self) -> ModelOptions:
        """The part that core needs.

        Raises:
            ConfigurationError: the chat template cannot be read, or one of vLLM's variables is wrong.
        """
        sequences = self.environ.get("VLLM_MAX_N_SEQUENCES")
        return ModelOptions(
            served_names=tuple(self.served_model_name) or (self.model,),
            tool_call_parser=self.tool_call_parser,
            reasoning_parser=self.reasoning_parser,
            enable_auto_tool_choice=self.enable_auto_tool_choice,
            chat_template=read_chat_template(self.chat_template),
            chat_template_content_format=self.chat_template_content_format,
            default_chat_template_kwargs=dict(self.default_chat_template_kwargs or {}),
            trust_request_chat_template=self.trust_request_chat_template,
            exclude_tools_when_tool_choice_none=self.exclude_tools_when_tool_choice_none,
            max_model_len=self.max_model_len,
            max_logprobs=self.max_logprobs,
            max_n_sequences=16384 if sequences is None else number_of("VLLM_MAX_N_SEQUENCES", sequences),
            generation_config=self.generation_config,
            override_generation_config=dict(self.override_generation_config or {}),
            tool_strict_level=self.tool_strict_level,
            parser_family=self.parser_family,
            reasoning_effort_map=dict(self.reasoning_effort_map or {}),
            system_start_date=self.environ.get("VLLM_SYSTEM_START_DATE") or None,
            stream_state=self.stream_state,
            state_keys=tuple(self.state_key),
            state_signature_required=self.state_signature == "required",
            one_shot_prompt=self.one_shot_prompt,
            parser_step=self.parser_step,
            parser_budget=self.parser_budget,
            replay_budget=self.replay_budget,
            prompts=self.prompts,
            chunk_form=self.chunk_form,
            audit=self.audit,
            answers=self.answers,
            tokenizer_mode=self.tokenizer_mode,
            encode_cache_bytes=self.encode_cache_bytes,
        )


def settings_from_environ(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of a Lambda function.

    Raises:
        ConfigurationError: names the variable and what it should be.
    """
    environ = os.environ if environ is None else environ
    refuse_unknown(environ, PREFIX, (entry.name for entry in fields(Settings)))
    names = (entry.name for entry in fields(Settings) if entry.name != "environ")
    values = values_of(environ, PREFIX, names, _READERS)
    if "model" not in values:
        raise ConfigurationError(f"{PREFIX}MODEL must name a model folder or bundle")
    return Settings(environ=environ, **values)


def read_chat_template(value: str | None) -> str | None:
    """A ``--chat-template`` value: a file's path, or the template itself.

    Raises:
        ConfigurationError: it is neither.
    """
    if value is None:
        return None
    try:
        return Path(value).read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        if any(mark in value for mark in "{}\n"):
            return value
        raise ConfigurationError(f"chat_template: {value!r} is neither a readable file nor a template ({exc})") from exc


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


_READERS: dict[str, Reader] = {
    "served_model_name": names_of,
    "state_key": names_of,
    "enable_auto_tool_choice": flag_of,
    "trust_request_chat_template": flag_of,
    "exclude_tools_when_tool_choice_none": flag_of,
    "default_chat_template_kwargs": json_object_of,
    "reasoning_effort_map": json_object_of,
    "override_generation_config": json_object_of,
    "max_model_len": number_of,
    "max_logprobs": number_of,
    "max_body_bytes": number_of,
    "encode_cache_bytes": number_of,
    "max_response_bytes": number_of,
    "engine_url": names_of,
    "engine_params": names_of,
    "engine_timeout": seconds_of,
    "turn_cache": number_of,
    "parser_budget": seconds_of,
    "replay_budget": seconds_of,
    "drain_timeout": seconds_of,
    "work_processes": number_of,
    "work_deadline": seconds_of,
    "work_queue": number_of,
    "header_timeout": seconds_of,
    "body_timeout": seconds_of,
    "max_connections": number_of,
    "max_bytes_in_flight": number_of,
    "sse_keep_alive_interval": seconds_of,
    "api_key": names_of,
    "allowed_media_domains": names_of,
    "refuse_media_uuids": flag_of,
    "require_engine_version": flag_of,
    "docs": flag_of,
    "playground": flag_of,
    "ready_with_engine": flag_of,
}
