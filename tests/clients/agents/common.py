"""What the agents share: the task, the tools, and running one agent at every endpoint that standard input lists.

Standard input is a JSON list of ``{"name", "url", "model", "large"}``. Standard
output is a JSON object: for each name what the agent did, ``{"calls": [[name,
arguments], ...], "thoughts": what it was told of the model's reasoning, "text":
the last answer}``, or ``{"error": the exception}``. The arguments of the
command say which of a library's ways is run; ``whole`` is without streaming.
Where an endpoint is ``large`` the request is as a coding agent sends it: a
long system prompt and dozens of tools beside the two.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

TASK = "What is the weather in Paris, and what time is it there?"
# A loop that does not end by itself has gone wrong.
MOST_TURNS = 4
WEATHER = "14 degrees and rain"
TIME = "half past nine"
WHOLE = "whole" in sys.argv[1:]

_TWO: list[tuple[str, str, dict[str, Any]]] = [
    (name, description, {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]})
    for name, description, argument in (
        ("get_weather", "Current weather of a city", "city"),
        ("get_time", "Current time of a time zone", "zone"),
    )
]
_EDIT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file's path from the root of the repository"},
        "edits": {
            "type": "array",
            "description": "What to replace, in the order of the file",
            "items": {
                "type": "object",
                "properties": {
                    "old": {"type": "string", "minLength": 1},
                    "new": {"type": "string"},
                    "all": {"type": "boolean", "default": False},
                },
                "required": ["old", "new"],
                "additionalProperties": False,
            },
        },
        "mode": {"enum": ["replace", "insert", None], "description": "null asks each time"},
        "timeout": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
    },
    "required": ["path", "edits"],
    "additionalProperties": False,
    "$schema": "http://json-schema.org/draft-07/schema#",
}
_MANY = [
    (f"edit_{number}", f"Edits files, way {number}.\n\n" + "Read a file first. " * 20, _EDIT) for number in range(40)
]
LONG = "You are a coding agent.\n\n# Rules\n" + "\n".join(
    f"{number}. Keep the answer short: 'ok', <b>, {{x}}." for number in range(400)
)


def _chat(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TOOLS: list[dict[str, Any]] = [_chat(*tool) for tool in _TWO]
"""The two tools in the words of chat completions."""


def chat_tools(endpoint: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools of an endpoint's request in the words of chat completions."""
    return [_chat(*tool) for tool in _tools(endpoint)]


def response_tools(endpoint: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools of an endpoint's request in the words of Responses."""
    return [{"type": "function", **tool["function"], "strict": False} for tool in chat_tools(endpoint)]


def message_tools(endpoint: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools of an endpoint's request in the words of Messages, the last one marked to be cached."""
    tools: list[dict[str, Any]] = [
        {"name": name, "description": description, "input_schema": schema}
        for name, description, schema in _tools(endpoint)
    ]
    return [*tools[:-1], {**tools[-1], "cache_control": {"type": "ephemeral"}}]


def system(endpoint: dict[str, Any]) -> str:
    """The system prompt of an endpoint's request."""
    return LONG if endpoint["large"] else "You are kind."


def _tools(endpoint: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [*_MANY, *_TWO] if endpoint["large"] else _TWO


class Tools:
    """The two tools, which remember how they were called; ``thoughts`` is the reasoning that the agent was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.thoughts = ""

    def get_weather(self, city: str) -> str:
        """Current weather of a city."""
        self.calls.append(("get_weather", {"city": city}))
        return WEATHER

    def get_time(self, zone: str) -> str:
        """Current time of a time zone."""
        self.calls.append(("get_time", {"zone": zone}))
        return TIME

    def run(self, name: str, arguments: Any) -> str:
        """Run a tool by its name, as an agent that has its own loop does."""
        result: str = getattr(self, name)(**arguments)
        return result


def main(run: Callable[[dict[str, Any], Tools], str]) -> None:
    """Run an agent at each endpoint; ``run`` gives its last answer."""
    done = {}
    for endpoint in json.load(sys.stdin):
        tools = Tools()
        try:
            text = run(endpoint, tools)
            done[endpoint["name"]] = {"calls": tools.calls, "thoughts": tools.thoughts, "text": text}
        except Exception as exc:
            done[endpoint["name"]] = {"error": f"{type(exc).__name__}: {exc}"[:1000], "calls": tools.calls}
    json.dump(done, sys.stdout)
