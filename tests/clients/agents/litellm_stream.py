"""LiteLLM: ``completion(stream=True)`` and its own ``stream_chunk_builder``."""

from __future__ import annotations

import json
from typing import Any

import litellm
from common import MOST_TURNS, TASK, TOOLS, Tools, main

litellm.suppress_debug_info = True


def run(endpoint: dict[str, str], tools: Tools) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    for _ in range(MOST_TURNS):
        stream = litellm.completion(
            model=f"hosted_vllm/{endpoint['model']}",
            api_base=endpoint["url"],
            api_key="none",
            messages=messages,
            tools=TOOLS,
            stream=True,
            max_retries=0,
        )
        answer: Any = litellm.stream_chunk_builder(list(stream), messages=messages)
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}))
        for call in message.tool_calls:
            result = tools.run(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise RuntimeError("the loop does not end")


main(run)
