"""Streams through a parser: the deployments, an output of any length for each, and the requests of its chunks."""

from __future__ import annotations

import argparse
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from core.tokenizer import Tokenizer

Json = dict[str, Any]
# Tokens of an output at which a stream is looked at.
LENGTHS = (64, 512, 1400, 4096)
REQUEST_ID = "chatcmpl-0123456789abcdef0123456789abcdef"
TOOL = {
    "type": "function",
    "function": {
        "name": "write_file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
    },
}


class Setup(NamedTuple):
    """A deployment: model folder, parsers, and the text around reasoning and a call."""

    name: str
    model: str
    tool: str
    reasoning: str | None
    prompt: str
    before: str
    between: str
    call: Callable[[str], str]


def _json_call(text: str, key: str = "arguments") -> str:
    return json.dumps({"name": "write_file", key: {"path": "a.txt", "content": text}}, ensure_ascii=False)


def _arguments(text: str) -> str:
    return json.dumps({"path": "a.txt", "content": text}, ensure_ascii=False)


SETUPS = (
    Setup(
        "hermes + qwen3",
        "qwen3",
        "hermes",
        "qwen3",
        "<|im_start|>assistant\n",
        "<think>",
        "</think>\n\n",
        lambda text: f"<tool_call>\n{_json_call(text)}\n</tool_call>",
    ),
    Setup(
        "qwen3_coder + qwen3",
        "qwen3.5",
        "qwen3_coder",
        "qwen3",
        "<|im_start|>assistant\n",
        "<think>",
        "</think>\n\n",
        lambda text: (
            "<tool_call>\n<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n"
            f"<parameter=content>\n{text}\n</parameter>\n</function>\n</tool_call>"
        ),
    ),
    Setup(
        "deepseek_v31 + deepseek_v3",
        "deepseek",
        "deepseek_v31",
        "deepseek_v3",
        "<｜User｜>hi<｜Assistant｜><think>",
        "",
        "</think>",
        lambda text: (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>"
            f"{_arguments(text)}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
    ),
    Setup("llama3_json", "llama3", "llama3_json", None, "hi", "", "", lambda text: _json_call(text, "parameters")),
    Setup(
        "harmony",
        "gpt-oss",
        "openai",
        "openai_gptoss",
        "<|start|>assistant",
        "<|channel|>analysis<|message|>",
        "<|end|>",
        lambda text: (
            "<|start|>assistant<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>"
            f"{_arguments(text)}<|call|>"
        ),
    ),
)


def prose(tokenizer: Tokenizer, length: int, module: ModuleType) -> str:
    """About ``length`` tokens of a file as an assistant might write it: a module of the standard library."""
    text = inspect.getsource(module)
    ids = tokenizer.encode(text[: length * 8], add_special_tokens=False)[:length]
    return tokenizer.decode(ids)


def output(setup: Setup, tokenizer: Tokenizer, length: int) -> list[int]:
    """Ids of an output that is longer than ``length``, in the middle of its long argument there."""
    thought = prose(tokenizer, length // 2, textwrap) if setup.reasoning else ""
    text = setup.before + thought + (setup.between if setup.reasoning else "")
    text += setup.call(prose(tokenizer, length, argparse))
    return tokenizer.encode(text, add_special_tokens=False)


def chunk_bodies(prompt: Sequence[int], ids: Sequence[int], carry: bool) -> Iterator[Json]:
    """The request of each chunk, but for its state."""
    context = {
        "model": "m",
        "prompt_tokens": len(prompt),
        "prompt_token_ids": list(prompt),
        "chat_request": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]},
    }
    for number, token_id in enumerate(ids):
        last = number == len(ids) - 1
        choice = {"index": 0, "token_ids": [token_id], "finish_reason": "length" if last else None}
        body: Json = {"stream": True, "generate_chunk": {"request_id": REQUEST_ID, "choices": [choice]}}
        if not carry or number == 0:
            body |= context
        if carry and number == 0:
            body["carry_context"] = True
        yield body


def parsers(setup: Setup) -> Json:
    """The parser settings of a setup, by field of ``Settings``."""
    return {"tool_call_parser": setup.tool, "reasoning_parser": setup.reasoning, "enable_auto_tool_choice": True}


def flags(setup: Setup) -> list[str]:
    """The same as flags, which both servers spell alike."""
    words = ["--enable-auto-tool-choice", "--tool-call-parser", setup.tool]
    return [*words, "--reasoning-parser", setup.reasoning] if setup.reasoning else words
