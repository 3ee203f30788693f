"""Random changes of JSON values and of stream states: what a client may send back in place of what it was given."""

from __future__ import annotations

import base64
import copy
import json
import random
import zlib
from typing import Any

Json = dict[str, Any]

_ODD: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2**31,
    2**63,
    10**30,
    1.5,
    1e308,
    "",
    "x",
    "\ud800",
    "z",
    "jWzBd",
    [],
    [[]],
    [1] * 50,
    {},
    {"a": []},
]


def mutate_json(rng: random.Random, value: Any) -> Any:
    """One random change somewhere inside a JSON value."""
    if isinstance(value, list) and value and rng.random() < 0.85:
        index = rng.randrange(len(value))
        kind = rng.random()
        if kind < 0.6:
            value[index] = mutate_json(rng, value[index])
        elif kind < 0.8:
            del value[index]
        else:
            value.insert(index, copy.deepcopy(rng.choice(value)))
        return value
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        value[key] = mutate_json(rng, value[key])
        return value
    if isinstance(value, str) and value and rng.random() < 0.5:
        at = rng.randrange(len(value))
        return value[:at] + rng.choice(["", "\x00", "\ufffd", '"', "}", value]) + value[at + 1 :]
    if type(value) is int and rng.random() < 0.5:
        return value + rng.choice([-1, 1, 1000, -(2**40)])
    return copy.deepcopy(rng.choice(_ODD))


def _unpacked(text: str) -> Any:
    raw = base64.urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
    return json.loads((zlib.decompress(raw) if text[0] == "z" else raw).decode("utf-8", "surrogatepass"))


def _packed(rng: random.Random, value: Any) -> str:
    raw = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    kind = "z" if rng.random() < 0.7 else "j"
    data = zlib.compress(raw) if kind == "z" else raw
    return kind + base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def mutated(rng: random.Random, state: Json) -> Any:
    """A state with a few changes: of its bytes, of its checkpoint's bytes, of what that says, or of its fields."""
    state = copy.deepcopy(state)
    kind = rng.random()
    if kind < 0.15:  # bytes of the whole
        text = bytearray(json.dumps(state).encode())
        for _ in range(rng.randint(1, 3)):
            text[rng.randrange(len(text))] = rng.randrange(32, 127)
        try:
            return json.loads(text)
        except ValueError:
            return text.decode("latin-1")
    if kind < 0.3 and "checkpoint" in state:  # bytes of the checkpoint
        text = bytearray(state["checkpoint"].encode())
        for _ in range(rng.randint(1, 3)):
            text[rng.randrange(len(text))] = rng.choice(b"ABCxyz019-_=")
        state["checkpoint"] = text[: rng.randint(0, len(text))].decode() if rng.random() < 0.3 else text.decode()
        return state
    if kind < 0.75 and "checkpoint" in state:  # what the checkpoint says
        value = _unpacked(state["checkpoint"])
        for _ in range(rng.randint(1, 3)):
            value = mutate_json(rng, value)
        state["checkpoint"] = _packed(rng, value)
        return state
    for _ in range(rng.randint(1, 3)):
        field = rng.choice([*state, "checkpoint", "context", "output_token_ids", "output_chunk_lens"])
        state[field] = mutate_json(rng, state.get(field))
    return state
