"""What the agents share: the task, the tools, and running one agent at every endpoint that standard input lists.

Standard input is a JSON list of ``{"name", "url", "model"}``. Standard output
is a JSON object: for each name what the agent did, ``{"calls": [[name,
arguments], ...], "text": the last answer}``, or ``{"error": the exception}``.
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

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]},
        },
    }
    for name, description, argument in (
        ("get_weather", "Current weather of a city", "city"),
        ("get_time", "Current time of a time zone", "zone"),
    )
]


class Tools:
    """The two tools, which remember how they were called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

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


def main(run: Callable[[dict[str, str], Tools], str]) -> None:
    """Run an agent at each endpoint; ``run`` gives its last answer."""
    done = {}
    for endpoint in json.load(sys.stdin):
        tools = Tools()
        try:
            text = run(endpoint, tools)
            done[endpoint["name"]] = {"calls": tools.calls, "text": text}
        except Exception as exc:
            done[endpoint["name"]] = {"error": f"{type(exc).__name__}: {exc}"[:1000], "calls": tools.calls}
    json.dump(done, sys.stdout)
