"""One generated chat through render and derender, turn by turn, with everything checked that must hold."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from core.derender.chat import derender_chat
from core.model import Model
from core.protocol.derender import DerenderChatRequest
from core.render.chat import render_chat
from core.turns.pieces import Pieces
from tests.turns.chats import TOOLS, TURNS, Json, Style, answers, follow_ups, sampled, words, written
from tests.turns.families import Family

PLAIN = "plain"
"""No policy: nothing is carried."""
# The share of turns whose answer is sent back changed as well, to see that it is noticed.
EDITS = 0.15


@dataclass
class Tally:
    """What happened over some turns. Only turns that have one before them count."""

    turns: int = 0
    modes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    drifting: int = 0
    ids: int = 0
    lost: int = 0
    kept: int = 0
    whole: int = 0
    size: int = 0
    plain_size: int = 0
    edits: int = 0
    wrong_text: int = 0
    wrong_spans: int = 0
    wrong_edits: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, Counter):
                mine.update(value)
            elif isinstance(mine, list):
                mine += value
            else:
                setattr(self, name, mine + value)


def run_chat(model: Model, family: Family, policy: str, style: Style, seed: int, turns: int = TURNS) -> Tally:
    """A whole chat under one policy."""
    rng = random.Random(f"{family.name}/{style}/{seed}")
    pieces, tally = Pieces(model.tokenizer), Tally()
    base: Json = {"model": model.name, "tools": TOOLS}
    messages: list[Json] = [
        {"role": "system", "content": words(rng, 20, 60)},
        {"role": "user", "content": words(rng, 3, 20)},
    ]
    rendered = render_chat(model, {**base, "messages": messages, "continue_from": {}})
    outputs: list[tuple[int, list[int]]] = []
    for answer in answers(rng, family, turns):
        prompt = rendered["token_ids"]
        text = written(answer, family, rng, style)
        output = sampled(text, pieces, model.tokenizer, prompt[-1], rng, style)
        outputs.append((len(prompt), output))
        message = message_of(model, base, messages, prompt, output, style)
        following = follow_ups(rng, message)
        given: Json = {}
        if policy != PLAIN:
            given = {"token_ids": prompt, "output_token_ids": output, "turn_state": rendered["turn_state"]}
            given["policy"] = policy
        plain = render_chat(model, {**base, "messages": [*messages, message, *following]})
        body = {**base, "messages": [*messages, message, *following], "continue_from": given}
        rendered = render_chat(model, body)
        _check(model, tally, prompt, output, plain["token_ids"], rendered, outputs, (family, text))
        if rng.random() < EDITS:
            edited = [*messages, _edited(rng, message, family), *following]
            told = render_chat(model, {**body, "messages": edited})["continuation"]
            tally.edits += 1
            # What the template does not write changes no plain prompt; appended ids must not stay even then.
            shown = render_chat(model, {**base, "messages": edited})["token_ids"] != plain["token_ids"]
            tally.wrong_edits += told["mode"] == "append" or (shown and told["kept"] > len(prompt))
        messages = body["messages"]
    return tally


def message_of(
    model: Model, base: Json, messages: list[Json], prompt: list[int], output: list[int], style: Style
) -> Json:
    """The answer that derender makes of an output, as the client of a chat sends it back."""
    body: Json = {
        "model": model.name,
        "generate_response": {
            "choices": [{"index": 0, "token_ids": output, "finish_reason": "stop"}],
            "prompt_token_ids": prompt,
        },
        "chat_request": {**base, "messages": messages},
    }
    said = derender_chat(model, DerenderChatRequest.model_validate(body))["choices"][0]["message"]
    kept = {"role": "assistant", "content": said["content"]}
    if said.get("tool_calls"):
        kept["tool_calls"] = said["tool_calls"]
    if style.echoes and said["reasoning"]:
        kept["reasoning"] = said["reasoning"]
    return kept


def _check(
    model: Model,
    tally: Tally,
    prompt: list[int],
    output: list[int],
    plain: list[int],
    rendered: Json,
    outputs: list[tuple[int, list[int]]],
    where: Any,
) -> None:
    told, ids, before = rendered["continuation"], rendered["token_ids"], [*prompt, *output]
    tally.turns += 1
    tally.modes[told["mode"]] += 1
    if told["reason"]:
        tally.reasons[told["reason"]] += 1
    common = next((at for at, (one, other) in enumerate(zip(before, plain, strict=False)) if one != other), len(before))
    tally.drifting += common < len(before)
    tally.lost += len(before) - common
    tally.ids += len(before)
    tally.size += len(ids)
    tally.plain_size += len(plain)
    tally.kept += told["kept"]
    # An end that the template writes another way is not kept: one id.
    tally.whole += told["kept"] >= len(before) - 1
    assert ids[: told["kept"]] == before[: told["kept"]]
    if told["mode"] in ("full", "part", "plain") and model.tokenizer.decode(ids) != model.tokenizer.decode(plain):
        tally.wrong_text += 1
        tally.examples.append(f"{where[0].name}: text {where[1]!r}")
    spans = [tuple(span) for span in told["sampled_spans"]]
    known = dict(outputs)
    for start, end in spans:
        if start not in known or ids[start:end] != known[start][: end - start] or end > len(ids):
            tally.wrong_spans += 1
            tally.examples.append(f"{where[0].name}: span {start}-{end}")
    # What did not stay is told by no span of a later prompt.
    outputs[:] = [(start, one) for start, one in outputs if any(start == span[0] for span in spans)]


def _edited(rng: random.Random, message: Json, family: Family) -> Json:
    """The answer as a client might change it: its text, a call's name or arguments, a call more, its reasoning."""
    calls = message.get("tool_calls") or []
    kinds = ["content"]
    if calls:
        kinds += ["name", "arguments"] if family.single else ["name", "arguments", "calls"]
    if "reasoning" in message:
        kinds.append("reasoning")
    match rng.choice(kinds):
        case "content":
            return {**message, "content": f"{message['content'] or ''} and more"}
        case "name":
            return {**message, "tool_calls": _changed(calls, name="other")}
        case "arguments":
            return {**message, "tool_calls": _changed(calls, arguments='{"city": "Rome"}')}
        case "calls":
            return {**message, "tool_calls": [*calls, {**calls[0], "id": "another9"}]}
        case _:
            return {**message, "reasoning": "something else"}


def _changed(calls: list[Json], **fields: str) -> list[Json]:
    return [{**calls[0], "function": {**calls[0]["function"], **fields}}, *calls[1:]]
