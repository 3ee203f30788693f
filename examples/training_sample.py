"""One training sample of an agent's chat with tools: the ids of all turns in one sequence, with what was sampled.

Runs against the servers of ``make demo ARGS=--keep``, or others. Of each id the
sample says whether the model sampled it, and how probable it was then. Nothing
is encoded again: the ids are those that the engine saw and gave. The script
checks that, and ends with status 1 where a turn does not continue the one before.

    .venv/bin/python examples/training_sample.py [--turns 20] [--out sample.json]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from derender_client import Conversation, DerenderClient, Sample

CITIES = ("Paris", "Rome", "Kyoto", "Lima", "Oslo", "Cairo", "Quito", "Dakar", "Seoul", "Turin")
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def get_weather(arguments: str) -> str:
    """The tool."""
    city = json.loads(arguments).get("city", "nowhere")
    return f"{len(city) + 7} degrees and rain in {city}"


def talk_with_tools(talk: Conversation, turns: int) -> None:
    """A chat of so many turns: each question is answered by a tool call first, and then in words."""
    asked = 0
    for _ in range(turns):
        last = talk.messages[-1] if talk.messages else {}
        calls = last.get("tool_calls") or []
        for call in calls:
            result = get_weather(call["function"]["arguments"])
            talk.add({"role": "tool", "tool_call_id": call["id"], "content": result})
        if not calls:
            talk.add({"role": "user", "content": f"What is the weather in {CITIES[asked % len(CITIES)]}?"})
            asked += 1
        talk.generate()


def faults(talk: Conversation, sample: Sample) -> list[str]:
    """What is wrong with a sample: nothing, unless a server does not do its part."""
    found = []
    for number, turn in enumerate(talk.turns):
        begin, end = len(turn.prompt_token_ids), len(turn.token_ids)
        if sample.token_ids[:end] != turn.token_ids:
            found.append(f"turn {number}: the sample does not begin with what the engine saw and gave")
        if not all(sample.sampled[begin:end]) or sample.logprobs[begin:end] != turn.logprobs:
            found.append(f"turn {number}: its ids are not all marked as sampled, with their log probabilities")
    outputs = sum(len(turn.output_token_ids) for turn in talk.turns)
    if sum(sample.sampled) != outputs:
        found.append(f"{sum(sample.sampled)} ids are marked as sampled, and {outputs} were")
    return found


def main(argv: list[str] | None = None) -> int:
    """Build, check and write the sample; 0 when it is one, and right."""
    parser = argparse.ArgumentParser(description="one training sample of a chat with tools")
    parser.add_argument("--service", default="http://localhost:8100", help="where render and derender are")
    parser.add_argument("--engine", default="http://localhost:8200", help="where the token engine is")
    parser.add_argument("--model", default="qwen3")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--out", type=Path, help="a file for the sample, as JSON")
    options = parser.parse_args(argv)
    request: dict[str, Any] = {
        "model": options.model,
        "tools": [WEATHER],
        "logprobs": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    with DerenderClient(options.service, options.engine) as client:
        talk = Conversation(client, request, policy="append")
        talk_with_tools(talk, options.turns)
    for broken in talk.breaks:
        print(f"turn {broken.turn} does not continue the one before: {broken.reason}", file=sys.stderr)
    if talk.breaks:
        return 1
    (sample,) = talk.samples()
    wrong = faults(talk, sample)
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    called = sum(bool(message.get("tool_calls")) for message in talk.messages)
    print(f"{len(talk.turns)} turns, {called} with tool calls: one sequence of {len(sample.token_ids)} ids")
    print(f"{sum(sample.sampled)} of them sampled, each with its log probability")
    if options.out is not None:
        fields = {"token_ids": sample.token_ids, "sampled": sample.sampled, "logprobs": sample.logprobs}
        options.out.write_text(json.dumps(fields))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
