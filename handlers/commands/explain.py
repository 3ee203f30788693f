"""``derender explain``: how an output is split, in a terminal."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

from core.errors import ConfigurationError, RequestError
from core.explain.answer import MAX_IDS, encode_output, explain_answer
from core.explain.prompt import REQUEST, explain_prompt
from core.json import Json
from core.model import Model
from handlers.loading import ModelLoader
from handlers.settings import settings_from_environ

_IDS = re.compile(rb"\s*\[[\s\d,]*\]\s*")
# The most bytes of an output that are read: more than its most tokens have.
_MOST_BYTES = 64 * MAX_IDS
# By kind: what a terminal is told before the text.
_COLOURS = {"reasoning": "35", "content": "32", "name": "1;33", "arguments": "34", "markup": "2", "special": "2"}


def explain(
    environ: Mapping[str, str], source: BinaryIO, request: Path | None, size: int, *, with_prompt: bool = False
) -> int:
    """Print what a deployment makes of the output in ``source``: its text, or a JSON list of its ids.

    Raises:
        ConfigurationError: the settings, the model, the request or the output cannot work.
    """
    if size < 1:
        raise ConfigurationError(f"--chunk must be at least 1, not {size}")
    logging.getLogger("vllm").setLevel(logging.CRITICAL)  # what a parser cannot read is shown below
    given = source.read(_MOST_BYTES + 1)
    if len(given) > _MOST_BYTES:
        raise ConfigurationError(f"the output has more than {_MOST_BYTES} bytes")
    loader = ModelLoader(settings_from_environ(environ), encodes=True)
    loader.load()
    model = loader.get()
    try:
        chat = {**(_usual(model) if request is None else _read(request)), "model": model.name}
        prompt, ids = explain_prompt(model, chat)
        output = _ids(given) if _IDS.fullmatch(given) else encode_output(model.tokenizer, given.decode())
        answer = explain_answer(model, chat, ids, output, size)
    except (RequestError, ValueError) as exc:
        raise ConfigurationError(getattr(exc, "message", str(exc))) from exc
    lines = [*_prompt(prompt, shown=with_prompt), "", "Output", *_runs(answer["tokens"]), *_answer(answer)]
    print("\n".join(lines))
    return 0


def _usual(model: Model) -> Json:
    """A question, with a tool where there is a parser for its calls."""
    parsed = model.config.is_harmony or model.options.tool_call_parser is not None
    return REQUEST if parsed else {"messages": REQUEST["messages"]}


def _read(path: Path) -> Json:
    try:
        read = json.loads(path.read_bytes())
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"--request {path}: {exc}") from exc
    if not isinstance(read, dict):
        raise ConfigurationError(f"--request {path}: it is no JSON object")
    return read


def _ids(given: bytes) -> list[int]:
    ids: list[int] = json.loads(given)
    return ids


def _prompt(prompt: Json, *, shown: bool) -> list[str]:
    lines = [f"Prompt: {prompt['count']} tokens"]
    if shown:
        kinds = [{**token, "kind": "special" if token["special"] else "text"} for token in prompt["tokens"]]
        lines += _runs(kinds)
    if prompt["lost"]:
        lines.append(f"  not in the prompt: {', '.join(prompt['lost'])}")
    return lines


def _runs(tokens: list[Json]) -> list[str]:
    """A line for every run of tokens of a kind."""
    lines = []
    for kind, run in groupby(tokens, key=lambda token: token["kind"]):
        texts = [token["text"] for token in run]
        count = f"{len(texts)} token{'s' if len(texts) > 1 else ''}"
        lines.append(f"  {_coloured(kind, f'{kind:<10}')} {count:>10}  {_coloured(kind, _quoted(''.join(texts)))}")
    return lines


def _answer(answer: Json) -> list[str]:
    lines = ["", "Answer in one piece", f"  {_quoted(answer['whole'])}", "", f"Stream: {len(answer['deltas'])} chunks"]
    for delta in answer["deltas"]:
        first, end = delta["tokens"]
        ends = f" {delta['finish_reason']}" if delta.get("finish_reason") else ""
        lines.append(
            f"  {first:>5}-{end - 1:<5} state {delta['state_bytes']:>6} bytes  {_quoted(delta['delta'])}{ends}"
        )
    if "error" in answer["streamed"]:
        lines.append(f"  the stream broke off: {answer['streamed']['error']}")
    if answer["differs"]:
        lines.append(f"  joined it says something else: {_quoted(answer['streamed'])}")
    lines += ["", "Audit: " + (", ".join(answer["findings"]) or "nothing found")]
    return lines


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _coloured(kind: str, text: str) -> str:
    return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if kind in _COLOURS and sys.stdout.isatty() else text
