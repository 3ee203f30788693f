"""The server configurations that ``make parity`` starts on both sides: the one place to add one.

Each is a configuration of the recorded corpus, spelled as there
(``python -m tests.golden.replay --list``). One a chat format and kind of parser,
since a real server takes up to a minute to start.
"""

from __future__ import annotations

from typing import Any

Server = dict[str, Any]
_SHOWN = 40

CONFIGURATIONS: tuple[Server, ...] = (
    {"model": "qwen3"},
    {
        "model": "qwen3",
        "tool_call_parser": "hermes",
        "enable_auto_tool_choice": True,
        "reasoning_parser": "qwen3",
    },
    {"model": "llama3", "tool_call_parser": "llama3_json", "enable_auto_tool_choice": True},
    {
        "model": "deepseek",
        "tool_call_parser": "deepseek_v31",
        "enable_auto_tool_choice": True,
        "reasoning_parser": "deepseek_v3",
    },
    {
        "model": "qwen3.5",
        "tool_call_parser": "qwen3_coder",
        "enable_auto_tool_choice": True,
        "reasoning_parser": "qwen3",
    },
    {
        "model": "gpt-oss",
        "tool_call_parser": "openai",
        "enable_auto_tool_choice": True,
        "reasoning_parser": "openai_gptoss",
        "env": {"VLLM_SYSTEM_START_DATE": "2031-01-15"},
    },
    {"model": "mistral-spm"},
)


def title(server: Server) -> str:
    """A configuration in a few words."""
    options = [str(server[key]) for key in ("tool_call_parser", "reasoning_parser") if key in server]
    known = {"model", "tool_call_parser", "reasoning_parser", "enable_auto_tool_choice", "env"}
    options += [f"{key}={_short(value)}" for key, value in server.items() if key not in known]
    return " ".join([server["model"], *options])


def _short(value: Any) -> str:
    """A value as one word of a table, a template as its beginning."""
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
