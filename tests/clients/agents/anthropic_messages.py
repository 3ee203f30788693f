"""Anthropic's SDK: ``messages.stream()`` and its final message, or ``messages.create()``; thinking goes back as it came."""

from __future__ import annotations

from typing import Any

import anthropic
from common import MOST_TURNS, TASK, WHOLE, Tools, main, message_tools, system


def run(endpoint: dict[str, Any], tools: Tools) -> str:
    url = endpoint["url"].removesuffix("/v1")
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": TASK, "cache_control": _CACHED}]}]
    asked: Any = {
        "model": endpoint["model"],
        "max_tokens": 2000,
        "system": [{"type": "text", "text": system(endpoint), "cache_control": _CACHED}],
        "tools": message_tools(endpoint),
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "metadata": {"user_id": "user_1"},
    }
    for _ in range(MOST_TURNS):
        if WHOLE:
            message: Any = client.messages.create(messages=messages, **asked)
        else:
            with client.messages.stream(messages=messages, **asked) as stream:
                message = stream.get_final_message()
        tools.thoughts += "".join(block.thinking for block in message.content if block.type == "thinking")
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in message.content if block.type == "text")
        if message.stop_reason != "tool_use":
            raise ValueError(f"stopped by {message.stop_reason}")
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": tools.run(call.name, call.input)}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    raise RuntimeError("the loop does not end")


_CACHED: Any = {"type": "ephemeral"}
main(run)
