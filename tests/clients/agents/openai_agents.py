"""openai-agents with its defaults, that is on Responses: ``Runner.run_streamed``, or ``Runner.run``."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from common import TASK, WHOLE, Tools, main, response_tools, system

# As its documents say for servers other than OpenAI's. Traces would go to OpenAI.
os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1"}

from agents import Agent, FunctionTool, Runner, function_tool, set_default_openai_client
from openai import AsyncOpenAI


async def unused(_context: Any, _arguments: str) -> str:
    raise AssertionError("the model asks for none of these")


async def work(endpoint: dict[str, Any], tools: Tools) -> str:
    set_default_openai_client(AsyncOpenAI(base_url=endpoint["url"], max_retries=0), use_for_tracing=False)
    others = [
        FunctionTool(
            name=tool["name"],
            description=tool["description"],
            params_json_schema=tool["parameters"],
            on_invoke_tool=unused,
            strict_json_schema=False,
        )
        for tool in response_tools(endpoint)[:-2]
    ]
    agent = Agent(
        name="Assistant",
        instructions=system(endpoint),
        model=endpoint["model"],
        tools=[*others, function_tool(tools.get_weather), function_tool(tools.get_time)],
    )
    if WHOLE:
        done: Any = await Runner.run(agent, TASK, max_turns=4)
    else:
        done = Runner.run_streamed(agent, TASK, max_turns=4)
        async for _event in done.stream_events():
            pass
    for item in done.new_items:
        if item.type == "reasoning_item":
            tools.thoughts += "".join(part.text for part in item.raw_item.content or ())
    return str(done.final_output)


def run(endpoint: dict[str, Any], tools: Tools) -> str:
    return asyncio.run(work(endpoint, tools))


main(run)
