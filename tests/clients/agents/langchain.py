"""LangChain: ``ChatOpenAI`` with bound tools, its chunks added up."""

from __future__ import annotations

from typing import Any

from common import MOST_TURNS, TASK, TOOLS, Tools, main
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI


def run(endpoint: dict[str, str], tools: Tools) -> str:
    options: dict[str, Any] = {"model": endpoint["model"], "base_url": endpoint["url"], "api_key": "none"}
    model = ChatOpenAI(**options, max_retries=0).bind_tools(TOOLS)
    messages: list[Any] = [HumanMessage(TASK)]
    for _ in range(MOST_TURNS):
        answer: Any = None
        for chunk in model.stream(messages):
            answer = chunk if answer is None else answer + chunk
        if answer.invalid_tool_calls:
            raise ValueError(f"invalid calls: {answer.invalid_tool_calls}")
        if not answer.tool_calls:
            return str(answer.content)
        messages.append(answer)
        for call in answer.tool_calls:
            messages.append(ToolMessage(tools.run(call["name"], call["args"]), tool_call_id=call["id"]))
    raise RuntimeError("the loop does not end")


main(run)
