"""LangChain with bound tools: ``ChatOpenAI`` on chat or (``responses``) on Responses, or ``ChatAnthropic`` (``messages``).

Its chunks are added up, or it is invoked.
"""

from __future__ import annotations

import sys
from typing import Any

from common import MOST_TURNS, TASK, WHOLE, Tools, chat_tools, main, system
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI

WAY = sys.argv[1] if len(sys.argv) > 1 else "chat"


def chat_model(endpoint: dict[str, Any]) -> Any:
    options: dict[str, Any] = {"model": endpoint["model"], "api_key": "none", "max_retries": 0}
    if WAY == "messages":
        url = endpoint["url"].removesuffix("/v1")
        return ChatAnthropic(
            **options, base_url=url, max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}
        )
    return ChatOpenAI(**options, base_url=endpoint["url"], use_responses_api=WAY == "responses")


def run(endpoint: dict[str, Any], tools: Tools) -> str:
    model = chat_model(endpoint).bind_tools(chat_tools(endpoint))
    messages: list[Any] = [SystemMessage(system(endpoint)), HumanMessage(TASK)]
    for _ in range(MOST_TURNS):
        answer: Any = None
        if WHOLE:
            answer = model.invoke(messages)
        else:
            for chunk in model.stream(messages):
                answer = chunk if answer is None else answer + chunk
        if answer.invalid_tool_calls:
            raise ValueError(f"invalid calls: {answer.invalid_tool_calls}")
        tools.thoughts += "".join(
            block.get("reasoning", "") for block in answer.content_blocks if block["type"] == "reasoning"
        )
        if not answer.tool_calls:
            return str(answer.text)
        messages.append(answer)
        for call in answer.tool_calls:
            messages.append(ToolMessage(tools.run(call["name"], call["args"]), tool_call_id=call["id"]))
    raise RuntimeError("the loop does not end")


main(run)
