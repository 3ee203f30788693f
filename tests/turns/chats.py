"""Generated chats of an agent with tools: what users, tools and the model say, from a seed.

A model's words are text in its family's format, with the spacing that models
vary (``untidy``), and token ids that no tokenizer would choose (``resegmented``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core.tokenizer import Tokenizer
from core.turns.pieces import Pieces
from tests.checkpoint.formats import Call
from tests.turns.families import Family

Json = dict[str, Any]
TURNS = 20
SPLITS = 0.01
_TEXT = """the weather in Paris looks fine so take an umbrella anyway because clouds come from west and naïve forecasts
said 18 degrees at noon then 漢字 text with emoji 🌦 follows; prices rose 3.5 percent, see https://example.com/a?b=1"""
_WORDS = _TEXT.split()
TOOLS: list[Json] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name}.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "metric": {"type": "boolean"},
                    "limit": {"type": "number"},
                },
                "required": ["city"],
            },
        },
    }
    for name in ("get_weather", "find_hotel", "convert")
]


@dataclass(frozen=True)
class Style:
    """How the model and the client of a chat behave."""

    untidy: bool
    resegmented: bool
    echoes: bool


@dataclass(frozen=True)
class Answer:
    """What the model says in one turn."""

    reasoning: str | None
    content: str
    calls: Sequence[Call]


def words(rng: random.Random, least: int, most: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(least, most)))


def answers(rng: random.Random, family: Family, turns: int = TURNS) -> Iterator[Answer]:
    """The answers of a chat: some call tools, and after a few of them comes one that does not."""
    calling = 0
    for _ in range(turns):
        calls: list[Call] = []
        if calling < 4 and rng.random() < 0.65:
            calls = [_call(rng) for _ in range(1 if family.single or rng.random() < 0.7 else 2)]
        calling = calling + 1 if calls else 0
        content = "" if calls and (family.alone or rng.random() < 0.4) else words(rng, 3, 30)
        yield Answer(words(rng, 5, 40) if family.think else None, content, calls)


def _call(rng: random.Random) -> Call:
    arguments: Json = {"city": rng.choice(["Paris", "São Paulo", "Kraków\nPoland", 'the "city"', "東京"])}
    if rng.random() < 0.6:
        arguments["days"] = rng.randint(1, 14)
    if rng.random() < 0.4:
        arguments["metric"] = rng.random() < 0.5
    if rng.random() < 0.3:
        arguments["limit"] = rng.choice([1.0, 2.5, 1e-05, 100])
    return Call(rng.choice(TOOLS)["function"]["name"], arguments)


def follow_ups(rng: random.Random, message: Json) -> list[Json]:
    """What comes after an answer: the results of its calls, or a new question."""
    calls = message.get("tool_calls")
    if not calls:
        return [{"role": "user", "content": words(rng, 3, 20)}]
    return [{"role": "tool", "tool_call_id": call["id"], "content": words(rng, 2, 25)} for call in calls]


def written(answer: Answer, family: Family, rng: random.Random, style: Style) -> str:
    """The text that the model samples, its last token included."""

    def gap(tidy: str) -> str:
        return rng.choice([tidy, tidy, "\n", "\n\n", " ", ""]) if style.untidy else tidy

    parts = []
    if answer.reasoning is not None:
        opening = "<think>\n" if family.think == "whole" else ""
        parts += [opening, answer.reasoning, gap("\n"), "</think>", gap("\n\n")]
    parts.append(answer.content)
    if answer.calls:
        text = family.calls(answer.calls)
        parts += [gap("\n" if answer.content else ""), _respaced(text, rng) if style.untidy else text]
    elif style.untidy:
        parts.append(rng.choice(["", "", "\n", " "]))
    parts.append(family.calls_end if answer.calls and family.calls_end else family.end)
    return "".join(parts)


def _respaced(text: str, rng: random.Random) -> str:
    colon, comma = rng.choice([": ", ":", ":  "]), rng.choice([", ", ","])
    return re.sub(r'(?<="): ', colon, re.sub(r', (?=")', comma, text))


def sampled(
    text: str, pieces: Pieces, tokenizer: Tokenizer, before: int, rng: random.Random, style: Style
) -> list[int]:
    """Ids of the text behind the prompt's last token; some tokens come as two, where the style says so."""
    ids = pieces.encode(text, before)
    if not style.resegmented:
        return ids
    vocabulary = tokenizer.get_vocab()
    found: list[int] = []
    for number in ids:
        token = tokenizer.convert_ids_to_tokens(number)
        cuts = []
        if number not in pieces.added and isinstance(token, str) and len(token) > 1 and rng.random() < SPLITS:
            cuts = [at for at in range(1, len(token)) if token[:at] in vocabulary and token[at:] in vocabulary]
        if cuts:
            at = rng.choice(cuts)
            found += [vocabulary[token[:at]], vocabulary[token[at:]]]
        else:
            found.append(number)
    return found
