"""Outputs cut into chunks, and processors to feed them to."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor

from core.parsing.checkpoint import Prototype
from core.text.detokenizer import DecodeOptions, detokenize, seed_window
from core.tokenizer import Tokenizer
from core.upstream.parsers import choose_parser_class
from tests.checkpoint import formats
from tests.checkpoint.carrying import prototype_of
from tests.checkpoint.formats import Call

KEEP_SPECIAL = DecodeOptions(skip_special=False, spaces_between=False)
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "opts": {"type": "object", "properties": {"unit": {"type": "string"}}},
                },
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "content": {"type": "string"},
                    "lines": {"type": "array", "items": {"type": "integer"}},
                    "append": {"type": "boolean"},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "noop", "parameters": {"type": "object", "properties": {}}}},
]
CODE = 'def f(x):\n    """Say "hi"."""\n    return {"a\\t": [x, 1.5e3, None], "ü": \'🌦️\'}\n' * 4
PROSE = "The quick brown fox jumps over the lazy dog, again and again, and then once more. " * 6
CALLS: tuple[tuple[Call, ...], ...] = (
    (Call("get_weather", {"city": "São Paulo — 東京 🌦️", "days": 3, "opts": {"unit": "c", "deep": [1, {"b": None}]}}),),
    (
        Call("write_file", {"path": "a/b.py", "content": CODE, "lines": [1, 2, 3], "append": True}),
        Call("get_weather", {"city": "Oslo", "days": 0}),
    ),
    (Call("write_file", {"path": "x", "content": PROSE}), Call("noop", {}), Call("noop", {})),
    (Call("unknown_tool", {"n": 12345678901234567890123, "s": '\\u00e9 \\\\ " </tool_call> {[(,;'}),),
)
REASONING = "Let me think: 2 < 3, and a <b> tag, then </thi nothing.\nThe user wants 天気 🤔. <tool_c is partial. "
CONTENT = "Sure — I check: 1 < 2 🌍, `x`, $y$ and \\n.\n"


class Chunk(NamedTuple):
    text: str
    ids: list[int]
    finish_reason: str | None


@dataclass
class Setup:
    """A deployment's parsers with one request; builds a fresh processor as often as wanted."""

    tokenizer: Tokenizer
    parser_cls: Any
    model_config: Any
    request: dict[str, Any]
    auto_tools: bool = True
    _prototype: Prototype | None = None

    def processor(self) -> Any:
        request = ChatCompletionRequest.model_validate(dict(self.request))
        parser = self._prototype.fresh() if self._prototype else self._built(request)
        return ChatStreamProcessor(request, parser, enable_auto_tools=self.auto_tools, parser_cls=self.parser_cls)

    def _built(self, request: Any) -> Any:
        parser = self.parser_cls(
            self.tokenizer,
            request.tools,
            chat_template_kwargs=dict(request.chat_template_kwargs or {}),
            model_config=self.model_config,
        )
        # One family's parser looks through the whole vocabulary, too slowly for thousands of them.
        if "hy_v4" in type(parser._tool_parser or parser._reasoning_parser).__module__:
            self._prototype = prototype_of(parser)
            return self._prototype.fresh()
        return parser


def parser_class(tool: str | None, reasoning: str | None, tokenizer: Tokenizer, harmony: bool = False) -> Any:
    return choose_parser_class(
        tool_parser=tool,
        reasoning_parser=reasoning,
        enable_auto_tools=True,
        model_name="model",
        is_harmony=harmony,
        tokenizer=tokenizer,
    )


def model_config(model_type: str) -> Any:
    config = SimpleNamespace(model_type=model_type)
    return SimpleNamespace(hf_config=config, hf_text_config=config, hf_overrides=None, model="model", architecture=None)


def request(**fields: Any) -> dict[str, Any]:
    return {"model": "model", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **fields}


def output(
    tool: str | None, reasoning: str | None, calls: Sequence[Call], rng: random.Random, *, think: bool, content: bool
) -> str:
    """What a model of the family might answer."""
    parts: list[str] = []
    if think and reasoning is not None:
        opening, closing = formats.REASONING.get(reasoning, formats.THINK)
        # Templates of many families end the prompt with the opening.
        parts += [opening if rng.random() < 0.7 or reasoning == "openai_gptoss" else "", REASONING, closing]
    if content and tool not in formats.ALONE:
        opening, closing = formats.CONTENT.get(reasoning or "", ("", ""))
        # The first message's start is in the prompt.
        parts += [opening if parts else opening.removeprefix("<|start|>assistant"), CONTENT, closing]
    if calls and tool is not None:
        written = formats.TOOL_WRITERS[tool](calls)
        parts.append(written if parts or tool != "openai" else written.removeprefix("<|start|>assistant"))
        if rng.random() < 0.3 and tool not in formats.ALONE:
            parts.append("\nDone. " + CONTENT)
    return "".join(parts)


def mutate(ids: list[int], markers: Sequence[int], rng: random.Random) -> list[int]:
    """``ids`` with a few tokens lost, doubled, moved, or replaced by markers."""
    ids = list(ids)
    for _ in range(rng.randint(1, 4)):
        if not ids:
            break
        at = rng.randrange(len(ids))
        match rng.randrange(6):
            case 0:
                del ids[at : at + rng.randint(1, 3)]
            case 1:
                ids[at:at] = ids[at : at + rng.randint(1, 12)]
            case 2:
                ids.insert(at, rng.choice(markers))
            case 3:
                ids[at] = rng.choice(markers)
            case 4:
                other = rng.randrange(len(ids))
                ids[at], ids[other] = ids[other], ids[at]
            case _:
                ids = ids[:at]
    return ids


def chunks(
    tokenizer: Tokenizer, prompt: list[int], ids: Sequence[int], size: int | random.Random, finish: str | None = "stop"
) -> Iterator[Chunk]:
    """``ids`` in chunks of ``size`` tokens (or of random sizes), with the text that each adds; the last one finishes."""
    window = seed_window(tokenizer, prompt, False)
    position = 0
    while position < len(ids):
        step = size if isinstance(size, int) else size.randint(1, 9)
        piece = list(ids[position : position + step])
        position += step
        text, window = detokenize(tokenizer, piece, window, KEEP_SPECIAL)
        yield Chunk(text, piece, finish if position >= len(ids) else None)
