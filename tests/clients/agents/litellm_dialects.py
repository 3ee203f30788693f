"""LiteLLM as a library on an endpoint that speaks the dialect: ``responses()``, or ``anthropic.messages`` (``messages``)."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import litellm
from common import MOST_TURNS, TASK, WHOLE, Tools, main, message_tools, response_tools, system

litellm.suppress_debug_info = True
_DONE = ("response.completed", "response.incomplete")


def by_responses(endpoint: dict[str, Any], tools: Tools) -> str:
    given: list[Any] = [{"role": "user", "content": TASK}]
    for _ in range(MOST_TURNS):
        answer: Any = litellm.responses(
            model=f"openai/{endpoint['model']}",
            api_base=endpoint["url"],
            api_key="none",
            input=given,
            instructions=system(endpoint),
            tools=response_tools(endpoint),
            stream=not WHOLE,
            max_retries=0,
        )
        if not WHOLE:
            (answer,) = (event.response for event in answer if event.type in _DONE)
        output = [item if isinstance(item, dict) else item.model_dump(exclude_none=True) for item in answer.output]
        given += output
        tools.thoughts += "".join(
            part["text"] for item in output if item["type"] == "reasoning" for part in item.get("content") or ()
        )
        calls = [item for item in output if item["type"] == "function_call"]
        if not calls:
            return "".join(part["text"] for item in output if item["type"] == "message" for part in item["content"])
        for call in calls:
            result = tools.run(call["name"], json.loads(call["arguments"]))
            given.append({"type": "function_call_output", "call_id": call["call_id"], "output": result})
    raise RuntimeError("the loop does not end")


def by_messages(endpoint: dict[str, Any], tools: Tools) -> str:
    return asyncio.run(_by_messages(endpoint, tools))


async def _by_messages(endpoint: dict[str, Any], tools: Tools) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    for _ in range(MOST_TURNS):
        answer: Any = await litellm.anthropic.messages.acreate(
            model=f"anthropic/{endpoint['model']}",
            api_base=endpoint["url"].removesuffix("/v1"),
            api_key="none",
            messages=messages,
            max_tokens=2000,
            system=system(endpoint),
            tools=message_tools(endpoint),
            stream=not WHOLE,
        )
        blocks = answer["content"] if WHOLE else await _joined(answer)
        tools.thoughts += "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            return "".join(block["text"] for block in blocks if block["type"] == "text")
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": tools.run(call["name"], call["input"])}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    raise RuntimeError("the loop does not end")


async def _joined(stream: Any) -> list[Any]:
    """The blocks of a stream, which LiteLLM passes on as server-sent events."""
    text = ""
    async for piece in stream:
        text += piece.decode() if isinstance(piece, bytes) else str(piece)
    blocks: list[Any] = []
    for line in text.splitlines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line.removeprefix("data: "))
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            for name, value in event["delta"].items():
                if name == "partial_json":
                    blocks[event["index"]]["json"] += value
                elif name == "signature":
                    blocks[event["index"]][name] = value
                elif name != "type":
                    blocks[event["index"]][name] += value
    for block in blocks:
        arguments = block.pop("json")
        if arguments:
            block["input"] = json.loads(arguments)
    return blocks


main(by_messages if "messages" in sys.argv[1:] else by_responses)
