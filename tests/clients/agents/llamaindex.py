"""LlamaIndex: a ``FunctionAgent`` on ``OpenAILike``, which streams."""

from __future__ import annotations

import asyncio

from common import TASK, Tools, main
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike


async def work(endpoint: dict[str, str], tools: Tools) -> str:
    model = OpenAILike(
        model=endpoint["model"],
        api_base=endpoint["url"],
        api_key="none",
        max_retries=0,
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=8192,
    )
    agent = FunctionAgent(tools=[tools.get_weather, tools.get_time], llm=model, streaming=True)
    handler = agent.run(TASK, max_iterations=6)
    async for _event in handler.stream_events():
        pass
    return str(await handler)


def run(endpoint: dict[str, str], tools: Tools) -> str:
    return asyncio.run(work(endpoint, tools))


main(run)
