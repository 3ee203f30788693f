"""The ``derender`` command.

Flags of ``serve`` are spelled as ``vllm launch render`` spells them. A flag
sets the environment variable of its name for this process, so the command
line, a container and a Lambda function read their settings in one way.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from core.errors import ConfigurationError
from core.options import PASSABLE
from core.upstream.version import vllm_version
from handlers.settings import CHOICES, PREFIX
from handlers.slices import VARIABLE, choose

_UNDERSCORES = re.compile(r"^--[a-zA-Z0-9_-]+")
_FLAGS = (
    "enable-auto-tool-choice",
    "trust-request-chat-template",
    "exclude-tools-when-tool-choice-none",
    "refuse-media-uuids",
    "require-engine-version",
    "docs",
    "playground",
    "ready-with-engine",
)
# How a server listens (``handlers.network``): read from the environment as well, by the same names.
_NETWORK = {
    "host": "the address to listen on; default: 127.0.0.1",
    "port": "default: 8000",
    "uds": "the path of a Unix socket to listen on, in place of host and port",
    "workers": "processes that share the port; default: 1",
    "keep-alive": "seconds for which an idle connection is held; default: 75",
    "ssl-keyfile": "the key of the certificate, PEM",
    "ssl-certfile": "the certificate that the server shows, PEM: it speaks TLS then",
    "ssl-ca-certs": "who signs the certificates of clients, PEM",
    "ssl-cert-reqs": "certificates of clients: 0: none (the default), 1: where there is one, 2: wanted",
    "ssl-ciphers": "OpenSSL's names of ciphers",
    "allowed-origins": "origins whose pages may call, names or a JSON list; default: none",
    "allowed-methods": "methods that they may use; default: all",
    "allowed-headers": "headers that they may send; default: all",
}
_NETWORK_FLAGS = ("allow-credentials",)
_VALUES = {
    "tokenizer": "another folder, bundle or s3:// address that the tokenizer and its chat template are read from",
    "tool-call-parser": "vLLM's tool parser (hermes, llama3_json, ...)",
    "reasoning-parser": "vLLM's reasoning parser (qwen3, deepseek_r1, ...)",
    "chat-template": "a Jinja file, or the template itself; default: the model's own",
    "chat-template-content-format": "auto, string or openai",
    "default-chat-template-kwargs": "JSON object: template arguments where a request gives none",
    "reasoning-effort-map": "JSON object: what the chat template calls a reasoning effort",
    "override-generation-config": "JSON object: sampling defaults that win over the model's",
    "max-model-len": "context length in tokens; default: the model's",
    "max-logprobs": "most candidates per position (-1: any number)",
    "vllm-version": "whose parsers: the engine's version of vLLM; default: the newest that there is a slice of",
    "generation-config": "auto: the model's sampling defaults; vllm: none; or a folder",
    "root-path": "what a gateway puts before the paths, and leaves there",
    "max-body-bytes": "largest request body, decompressed",
    "encode-cache-bytes": "bytes of encoded text that are kept, so as not to be encoded again (0: none)",
    "parser-budget": "seconds of CPU time that the parsers of one derender call may take (0: any)",
    "replay-budget": "seconds of CPU time for the replay of a state that was not signed here (0: as parser-budget)",
    "drain-timeout": "seconds that a server that was told to end gives what runs",
    "work-processes": "processes for long work beside the event loop (0: none)",
    "work-deadline": "seconds of CPU time that a request may take in one of them (0: any)",
    "work-queue": "requests that may wait for one of them; the next gets a 503",
    "otlp-traces-endpoint": "where spans of requests go, over HTTP (OpenTelemetry; the extra otel)",
    "header-timeout": "seconds in which the headers of a request must come (0: any)",
    "body-timeout": "seconds in which the body of a request must come (0: any)",
    "max-connections": "connections that a server holds; beyond them it answers health checks alone",
    "max-bytes-in-flight": "bytes of request bodies that a server holds at once",
    "engine-api-key": "bearer key that the engine wants",
    "engine-model": "the name that the engines serve the model by; default: the one that a client gives",
    "engine-timeout": "seconds that an engine may be silent",
    "turn-cache": "megabytes in which the relay keeps last turns for clients that send back text only (0: none)",
    "sse-keep-alive-interval": "seconds after which a silent stream gets a comment (0: never)",
    "media-model-id": "what image hashes are taken with: the engine's model argument; default: MODEL_DIR as given",
}

_LISTS = ("served-model-name", "state-key", "engine-url", "engine-params", "api-key", "allowed-media-domains")
_WORDS = {
    "fast-encoder": "when the fast encoder is used, where it is proved equal: once it is ready, never, at the start",
    "prompts": "whether render keeps what vLLM loses of a request; default: vllm at render, repaired in the relay",
    "chunk-form": "how derender writes: as vLLM, or as OpenAI, without nulls in deltas and with cached tokens",
    "tool-strict-level": "the least that tool calls are constrained to; default: the tool parser's own",
    "parser-family": "whether a parser and a chat template of different model families stop the start",
    "stream-state": "what carries a parser from chunk to chunk",
    "state-signature": "whether unsigned states are refused",
    "request-log": "which requests get a line in the log",
    "log-format": "json: a JSON object a line (the default); text: for people; cloudwatch: with its metrics",
    "tokenizer-mode": "hf: tokenizer.json; mistral: tekken.json; auto: as vLLM chooses",
    "parser-step": "how a streamed chunk of several tokens goes through a parser: at once, or token by token",
    "content-parts": "when images go to the engine as they came, for it to read",
    "continue-turns": "how the relay keeps sampled ids in the next prompt of a conversation",
    "answers": "how parsed answers are read: as vLLM reads them, repaired, or (auto) repaired by the relay only",
    "audit": "what becomes of the audit of parsed answers: nothing, metrics and a log line, or a field as well",
    "one-shot-prompt": "whose prompt tells a one-shot parser where the output begins",
}


class _Version(argparse.Action):
    """Print the versions and end."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata  # late: few ask

        choose(os.environ.get(VARIABLE) or None)
        try:
            own = metadata.version("derender")
        except metadata.PackageNotFoundError:
            own = "(not installed)"  # a tree that runs as it lies, in an image
        try:
            parsers = f"parsers of vLLM {vllm_version()}"
        except ConfigurationError:
            parsers = "no parsers of vLLM"
        print(f"derender {own}, {parsers}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0, or 1 with one line on standard error."""
    given = _with_dashes(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parser().parse_args(_with_config(given))
        status: int = arguments.run(arguments)
        return status
    except ConfigurationError as exc:
        print(f"derender: {_as_typed(str(exc), given)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who reads has read enough. The interpreter would try once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _with_dashes(argv: Sequence[str]) -> list[str]:
    """The arguments with dashes in the names of flags, which vLLM takes with underscores, too."""
    return [_UNDERSCORES.sub(lambda flag: flag[0].replace("_", "-"), argument) for argument in argv]


def _with_config(given: list[str]) -> list[str]:
    """The arguments, with those of ``serve --config FILE``."""
    if given[:1] != ["serve"] or not any(one.partition("=")[0] == "--config" for one in given):
        return given
    from handlers.commands.config_file import with_config_file  # late: YAML, for a start that has a file

    switches = frozenset(f"--{name}" for name in (*_FLAGS, *_NETWORK_FLAGS))
    return ["serve", *with_config_file(given[1:], switches, frozenset(f"--{name}" for name in _LISTS))]


def _as_typed(message: str, given: Sequence[str]) -> str:
    """A message about variables, with the flags in their place that were given instead."""
    for flag in sorted({one.partition("=")[0] for one in given if one.startswith("--")}, key=len, reverse=True):
        variable = PREFIX + flag[2:].replace("-", "_").upper()
        message = re.sub(rf"\b{variable}\b(?: \({flag}\))?", flag, message)
    return message


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="derender", description="render and derender for token-in/token-out engines")
    parser.add_argument("--version", action=_Version, nargs=0, help="this distribution's version, and vLLM's")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    # No abbreviations, as in vLLM: the flag that one stands for may be another tomorrow.
    serve = commands.add_parser("serve", help="the service on uvicorn", allow_abbrev=False)
    serve.add_argument(
        "model",
        metavar="MODEL_DIR",
        nargs="?",
        help="a model folder, a bundle, or a bundle's s3://bucket/prefix; default: DERENDER_MODEL",
    )
    serve.add_argument("--config", metavar="FILE", help="flags with their values, as YAML; the command line wins")
    serve.add_argument("--served-model-name", nargs="+", metavar="NAME", help="default: MODEL_DIR as given")
    for name in (*_FLAGS, *_NETWORK_FLAGS):
        serve.add_argument(f"--{name}", action="store_true")
    for name, text in (_NETWORK | _VALUES).items():
        serve.add_argument(f"--{name}", help=text, metavar="VALUE")
    for name, text in _WORDS.items():
        choices = [choice for choice in CHOICES[name.replace("-", "_")] if choice is not None]
        serve.add_argument(f"--{name}", choices=choices, help=text)
    serve.add_argument("--state-key", nargs="+", metavar="KEY", help="keys that sign stream states; the first signs")
    serve.add_argument("--engine-url", nargs="+", metavar="URL", help="token engines: turns the relay on")
    serve.add_argument(
        "--engine-params",
        nargs="+",
        metavar="FIELD",
        help=f"client fields that reach the engines: {', '.join(PASSABLE)}",
    )
    serve.add_argument("--api-key", nargs="+", metavar="KEY", help="bearer keys, one of which every request needs")
    serve.add_argument(
        "--allowed-media-domains", nargs="+", metavar="HOST", help="hosts that images are fetched from; default: none"
    )
    serve.set_defaults(run=_serve)

    explain = commands.add_parser(
        "explain", help="how an output is split, token by token: text or ids on standard input", allow_abbrev=False
    )
    explain.add_argument("model", metavar="MODEL_DIR", help="as for serve")
    explain.add_argument("--tool-call-parser", metavar="VALUE", help="as for serve")
    explain.add_argument("--reasoning-parser", metavar="VALUE", help="as for serve")
    explain.add_argument("--chat-template", metavar="VALUE", help="as for serve")
    explain.add_argument("--answers", choices=["vllm", "repaired"], default="vllm", help="as for serve")
    explain.add_argument("--vllm-version", metavar="VALUE", help="as for serve")
    explain.add_argument(
        "--request", metavar="FILE", type=Path, help="a chat request as JSON; default: one with a tool"
    )
    explain.add_argument("--chunk", metavar="N", type=int, default=1, help="tokens a chunk of the stream; default: 1")
    explain.add_argument("--prompt", action="store_true", help="show the prompt's tokens as well")
    explain.set_defaults(run=_explain)

    bundle = commands.add_parser(
        "bundle", help="check a Hugging Face model folder and write a model bundle", allow_abbrev=False
    )
    bundle.add_argument("source", metavar="SOURCE", type=Path)
    bundle.add_argument("dest", metavar="DEST", help="a folder, or s3://bucket/prefix")
    bundle.add_argument("--tokenizer-mode", choices=CHOICES["tokenizer_mode"], default="auto", help="as for serve")
    bundle.add_argument("--tokenizer", metavar="DIR", type=Path, help="as for serve; a folder")
    bundle.add_argument(
        "--encodes", type=int, metavar="N", help="texts that the fast encoder is compared over; 0: it is not used"
    )
    bundle.add_argument("--vllm-version", metavar="VALUE", help="as for serve")
    bundle.set_defaults(run=_bundle)

    invoke = commands.add_parser(
        "invoke", help="one event through a built Lambda function, under the emulator", allow_abbrev=False
    )
    invoke.add_argument("function", metavar="FUNCTION", help="render, derender or relay")
    invoke.add_argument("event", metavar="EVENT.json", type=Path)
    invoke.add_argument("--model", metavar="DIR", type=Path, help="a model folder to package with the function")
    invoke.set_defaults(run=_invoke)
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    environ = dict(os.environ)
    if arguments.model is not None:
        environ[PREFIX + "MODEL"] = arguments.model
    for name in _LISTS:
        value = getattr(arguments, name.replace("-", "_"))
        if value:
            environ[PREFIX + name.replace("-", "_").upper()] = " ".join(value)
    for name in (*_FLAGS, *_NETWORK_FLAGS, *_NETWORK, *_VALUES, *_WORDS):
        value = getattr(arguments, name.replace("-", "_"))
        if value:
            environ[PREFIX + name.replace("-", "_").upper()] = "true" if value is True else str(value)
    choose(environ.get(VARIABLE) or None)
    from handlers.commands.serve import serve  # uvicorn and the model are loaded only by the command that needs them

    return serve(environ)


def _explain(arguments: argparse.Namespace) -> int:
    environ = dict(os.environ)
    environ[PREFIX + "MODEL"] = arguments.model
    for name in ("tool_call_parser", "reasoning_parser", "chat_template", "answers"):
        if getattr(arguments, name):
            environ[PREFIX + name.upper()] = getattr(arguments, name)
    if arguments.tool_call_parser:
        environ[PREFIX + "ENABLE_AUTO_TOOL_CHOICE"] = "true"
    choose(arguments.vllm_version or environ.get(VARIABLE) or None)
    from handlers.commands.explain import explain  # as above: a command loads itself

    return explain(environ, sys.stdin.buffer, arguments.request, arguments.chunk, with_prompt=arguments.prompt)


def _bundle(arguments: argparse.Namespace) -> int:
    choose(arguments.vllm_version or os.environ.get(VARIABLE) or None)
    from handlers.commands.bundle import write_bundle  # late: `serve --help` does without the tokenizer's package

    given = {} if arguments.encodes is None else {"encodes": arguments.encodes}
    return write_bundle(arguments.source, arguments.dest, arguments.tokenizer_mode, arguments.tokenizer, **given)


def _invoke(arguments: argparse.Namespace) -> int:
    from handlers.commands.invoke import invoke  # as above: a command loads itself

    return invoke(arguments.function, arguments.event, arguments.model)
