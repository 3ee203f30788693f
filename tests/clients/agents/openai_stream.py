"""openai-python: ``chat.completions.stream()``, whose helpers gather the calls."""

from __future__ import annotations

import json
from typing import Any

import openai
from common import MOST_TURNS, TASK, TOOLS, Tools, main


def run(endpoint: dict[str, str], tools: Tools) -> str:
    client = openai.OpenAI(base_url=endpoint["url"], api_key="none", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": TASK}]
    for _ in range(MOST_TURNS):
        with client.chat.completions.stream(model=endpoint["model"], messages=messages, tools=TOOLS) as stream:
            for _event in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}))
        for call in message.tool_calls:
            result = tools.run(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise RuntimeError("the loop does not end")


main(run)
