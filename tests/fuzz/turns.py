"""Turns of conversations that are forged, mixed or altered: each is a 400, and nothing else is ever a 500.

Honest conversations on the real application come first. Then their parts are
altered, exchanged between conversations and deployments, or replaced by nonsense.
"""

import copy
import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.fuzz.deployment import Deployment, Request, Tally
from tests.golden.corpus import Json, Server
from tests.golden.replay import JSON_HEADERS
from tests.support.mutations import mutate_json

RENDER, DERENDER = "/v1/chat/completions/render", "/v1/chat/completions/derender"
RENDER_RESPONSE = "/v1/responses/render"
KEY = "a key of the fuzzer, long enough"
SERVER: Server = {
    "model": "qwen3",
    "tool_call_parser": "hermes",
    "enable_auto_tool_choice": True,
    "reasoning_parser": "qwen3",
    "state_key": (KEY,),
}
OTHERS: tuple[Server, ...] = (
    {**SERVER, "state_key": ("another key of the fuzzer",)},
    {**SERVER, "reasoning_parser": None},
)
_QUESTIONS = ("What is 2+2?", "Who are you?", "漢字 or 🌦?", "Count to ten.")
_ANSWER = [151667, 198, 11613, 198, 151668, 271, 17, 488, 220, 17, 284, 220, 19, 13, 151645]


class Turns:
    """Requests that continue honest conversations, altered; with each whether it has to be refused."""

    def __init__(self, deployment: Deployment, others: list[Deployment], seed: int) -> None:
        self.rng = random.Random(seed)
        self.bases = [_honest(deployment, question) for question in _QUESTIONS]
        self.foreign = [_honest(other, _QUESTIONS[0]) for other in others]

    def __iter__(self) -> Iterator[tuple[Request, bool]]:
        kinds: list[Callable[[Json], bool]] = [
            self.forged, self.foreign_state, self.other_prompt, self.other_output, self.mixed, self.beyond, self.wild,
        ]  # fmt: skip
        while True:
            kind = self.rng.choice(kinds)
            body = copy.deepcopy(self.rng.choice(self.bases))
            body["continue_from"]["policy"] = self.rng.choice(["exact", "template", "append"])
            refused = kind(body)
            path = self.rng.choice([RENDER, RENDER_RESPONSE])
            if path == RENDER_RESPONSE:
                body["input"] = body.pop("messages")
            raw = json.dumps(body).encode()
            yield Request(f"turn {kind.__name__}", "POST", path, raw, dict(JSON_HEADERS)), refused

    def forged(self, body: Json) -> bool:
        """One value of the state changed."""
        given = body["continue_from"]
        before = copy.deepcopy(given["turn_state"])
        given["turn_state"] = mutate_json(self.rng, given["turn_state"])
        return bool(given["turn_state"] != before)

    def foreign_state(self, body: Json) -> bool:
        """The state of another deployment, for the same words."""
        body["continue_from"]["turn_state"] = self.rng.choice(self.foreign)["continue_from"]["turn_state"]
        return True

    def other_prompt(self, body: Json) -> bool:
        """Prompt ids that are not those of the state."""
        self._alter(body["continue_from"]["token_ids"])
        return True

    def other_output(self, body: Json) -> bool:
        """Output ids that are not those that derender read."""
        self._alter(body["continue_from"]["output_token_ids"])
        return True

    def mixed(self, body: Json) -> bool:
        """A part of one conversation in another."""
        given = body["continue_from"]
        others = [
            one["continue_from"] for one in self.bases if one["continue_from"]["turn_state"] != given["turn_state"]
        ]
        for name in self.rng.sample(("token_ids", "turn_state"), 1):
            given[name] = copy.deepcopy(self.rng.choice(others)[name])
        return True

    def beyond(self, body: Json) -> bool:
        """Spans beyond the prompt, in no order, or too many."""
        spans = self.rng.choice([[0, 10**6], [9, 2], [1], [0, 1] * 5000, [2**70, 2**71], [-1, 2]])
        body["continue_from"]["turn_state"]["spans"] = spans
        return True

    def wild(self, body: Json) -> bool:
        """Anything, anywhere."""
        for _ in range(self.rng.randint(1, 4)):
            body["continue_from"] = mutate_json(self.rng, body["continue_from"])
        if self.rng.random() < 0.3:
            body["messages"] = mutate_json(self.rng, body["messages"])
        return False

    def _alter(self, ids: list[int]) -> None:
        at = self.rng.randrange(len(ids))
        kind = self.rng.randrange(4)
        if kind == 0:
            ids[at] = (ids[at] + self.rng.randint(1, 1000)) % 151_000
        elif kind == 1:
            del ids[at]
        elif kind == 2:
            ids.insert(at, self.rng.randrange(151_000))
        else:
            ids += ids


def _honest(deployment: Deployment, question: str) -> Json:
    """The next request of a conversation, its state bound to the answer by derender."""
    chat: Json = {"model": "qwen3", "messages": [{"role": "user", "content": question}]}
    rendered = _call(deployment, RENDER, {**chat, "continue_from": {}})
    answer = {"choices": [{"index": 0, "token_ids": _ANSWER, "finish_reason": "stop"}]}
    body = {"generate_response": answer, "prompt_token_ids": rendered["token_ids"], "chat_request": chat}
    derendered = _call(deployment, DERENDER, {**body, "return_turn_state": True, "turn_state": rendered["turn_state"]})
    (choice,) = derendered["choices"]
    after = [{"role": "assistant", "content": choice["message"]["content"]}, {"role": "user", "content": "And then?"}]
    given = {
        "token_ids": rendered["token_ids"],
        "output_token_ids": list(_ANSWER),
        "turn_state": choice["turn_state"],
    }
    return {**chat, "messages": [*chat["messages"], *after], "continue_from": given}


def _call(deployment: Deployment, path: str, body: Json) -> Json:
    answer = deployment.send(Request("turn honest", "POST", path, json.dumps(body).encode(), dict(JSON_HEADERS)))
    assert answer is not None
    assert answer[0] == 200, answer
    return answer[1]


def attack(models_dir: Path, tally: Tally, count: int, seed: int, until: float = float("inf")) -> list[Any]:
    """Send ``count`` requests; those that should have been refused, and were not."""
    deployments = [Deployment(server, models_dir, tally) for server in (SERVER, *OTHERS)]
    wrong = []
    try:
        for request, refused in islice(Turns(deployments[0], deployments[1:], seed), count):
            answer = deployments[0].send(request)
            if refused and answer is not None and answer[0] != 400:
                wrong.append((request, answer))
            if time.monotonic() > until:
                break
    finally:
        for deployment in deployments:
            deployment.close()
    return wrong
