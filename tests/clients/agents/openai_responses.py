"""openai-python: ``responses.stream()`` and its final response, or ``responses.create()``; the output goes back as it came."""

from __future__ import annotations

import json
from typing import Any

import openai
from common import MOST_TURNS, TASK, WHOLE, Tools, main, response_tools, system


def run(endpoint: dict[str, Any], tools: Tools) -> str:
    client = openai.OpenAI(base_url=endpoint["url"], api_key="none", max_retries=0)
    given: list[Any] = [{"role": "user", "content": TASK}]
    asked: dict[str, Any] = {
        "model": endpoint["model"],
        "instructions": system(endpoint),
        "tools": response_tools(endpoint),
        "parallel_tool_calls": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    for _ in range(MOST_TURNS):
        if WHOLE:
            response: Any = client.responses.create(input=given, **asked)
        else:
            with client.responses.stream(input=given, **asked) as stream:
                for _event in stream:
                    pass
                response = stream.get_final_response()
        given += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
        tools.thoughts += "".join(
            part.text for item in response.output if item.type == "reasoning" for part in item.content or ()
        )
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return str(response.output_text)
        for call in calls:
            result = tools.run(call.name, json.loads(call.arguments))
            given.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
    raise RuntimeError("the loop does not end")


main(run)
