"""What a continued render costs beside a plain one, and what a request that continues weighs."""

from __future__ import annotations

import gzip
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.model import Model
from core.render.chat import render_chat
from core.turns.packing import pack_ids
from core.turns.pieces import Pieces
from tests.turns.chats import TOOLS, Json, Style, answers, follow_ups, sampled, words, written
from tests.turns.conversation import message_of
from tests.turns.families import Family

TOKENS = 32_000
_REPEATS = 9
_TIDY = Style(untidy=False, resegmented=False, echoes=True)
_UNTIDY = Style(untidy=True, resegmented=True, echoes=True)


def long_chat(model: Model, family: Family, policy: str, style: Style) -> tuple[Json, int]:
    """A request of some 32,000 tokens that continues, as a client sends it, and the length of its prompt."""
    rng, pieces = random.Random(f"{family.name}/{policy}"), Pieces(model.tokenizer)
    base: Json = {"model": model.name, "tools": TOOLS}
    messages: list[Json] = [{"role": "user", "content": words(rng, 200, 300)}]
    rendered = render_chat(model, {**base, "messages": messages, "continue_from": {}})
    while True:
        for answer in answers(rng, family):
            text = written(answer, family, rng, style)
            prompt = rendered["token_ids"]
            output = sampled(text, pieces, model.tokenizer, prompt[-1], rng, style)
            message = message_of(model, base, messages, prompt, output, style)
            messages = [*messages, message, *follow_ups(rng, message)]
            if messages[-1]["role"] == "tool":
                messages[-1] = {**messages[-1], "content": words(rng, 700, 900)}
            given = {"token_ids": prompt, "output_token_ids": output, "turn_state": rendered["turn_state"]}
            body = {**base, "messages": messages, "continue_from": {**given, "policy": policy}}
            rendered = render_chat(model, body)
            if len(rendered["token_ids"]) >= TOKENS:
                return body, len(rendered["token_ids"])


def measure(family: Family, scratch: Path) -> list[Json]:
    """A row for each policy: CPU milliseconds of a plain and of a continued render, in turns, and their ratio.

    ``plain_ms`` and ``continued_ms`` are of a process that keeps no texts with their ids;
    ``known_ms`` is a plain render by one that does, and has seen the conversation.
    """
    model, knowing = family.load(scratch, encode_cache_bytes=0), family.load(scratch)
    rows = []
    for policy, style in (("exact", _TIDY), ("append", _UNTIDY)):
        body, tokens = long_chat(model, family, policy, style)
        plain = {name: value for name, value in body.items() if name != "continue_from"}
        told = render_chat(model, body)["continuation"]
        times: dict[str, list[float]] = {"plain": [], "continued": [], "known": []}
        for number in range(_REPEATS):
            # The newest message is another one each time.
            changed = [*body["messages"][:-1], {**body["messages"][-1], "content": f"{number} {words(_RNG, 20, 40)}"}]
            for name, one, by in (("plain", plain, model), ("continued", body, model), ("known", plain, knowing)):
                request = {**one, "messages": changed}
                times[name].append(_cpu(lambda: render_chat(by, request)))  # noqa: B023
        ms = {name: statistics.median(took) * 1e3 for name, took in times.items()}
        rows.append(
            {
                "family": family.name,
                "policy": policy,
                "mode": told["mode"],
                "tokens": tokens,
                "plain_ms": ms["plain"],
                "continued_ms": ms["continued"],
                "known_ms": ms["known"],
                "ratio": ms["continued"] / ms["plain"],
            }
        )
    return rows


_RNG = random.Random(1)


def _cpu(run: Callable[[], Any]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def sizes(model: Model, family: Family) -> list[Json]:
    """What the parts of such a request weigh, in bytes: as JSON, and compressed for the way."""
    body, _ = long_chat(model, family, "append", _UNTIDY)
    given = body["continue_from"]
    ids = [*given["token_ids"], *given["output_token_ids"]]
    parts = {
        "messages and tools": {name: value for name, value in body.items() if name != "continue_from"},
        "ids as JSON": ids,
        "ids packed": pack_ids(ids),
        "turn_state": given["turn_state"],
    }
    rows = []
    for name, part in parts.items():
        text = json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()
        rows.append({"part": name, "bytes": len(text), "gzip": len(gzip.compress(text, 5))})
    return rows
