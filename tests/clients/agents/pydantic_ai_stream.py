"""pydantic-ai: an ``Agent`` whose ``run_stream`` calls the tools and streams the last answer."""

from __future__ import annotations

import asyncio

from common import TASK, Tools, main
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def work(endpoint: dict[str, str], tools: Tools) -> str:
    model = OpenAIChatModel(endpoint["model"], provider=OpenAIProvider(base_url=endpoint["url"], api_key="none"))
    agent = Agent(model, tools=[tools.get_weather, tools.get_time])
    text = ""
    async with agent.run_stream(TASK) as answer:
        async for part in answer.stream_text(delta=True):
            text += part
    return text


def run(endpoint: dict[str, str], tools: Tools) -> str:
    return asyncio.run(work(endpoint, tools))


main(run)
