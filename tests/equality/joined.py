"""One form for a whole answer and for a stream that a client has joined, and the words for how two of them differ.

Runs in full vLLM's environment too, so it needs nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from tests.support.streams import Choice, join

Json = dict[str, Any]
# What an answer that was refused is joined to: the words of refusals are compared elsewhere.
REFUSED: Json = {"refused": True}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
# Drawn at random; an id that is counted (functions.name:0) stays as it is.
_RANDOM_IDS = (
    re.compile(r"(?<=[-_])[0-9a-f]{16,32}$"),
    re.compile(r"^[A-Za-z0-9]{9}$"),
    re.compile(r"^[0-9a-f-]{32,36}$"),
)


def whole(response: Json) -> Json:
    """A ``ChatCompletionResponse``, joined: an absent text and an empty one are the same, as in a stream."""
    (choice,) = response["choices"]
    message = choice["message"]
    calls = [
        {"id": _shape(call["id"]), "type": call["type"], **_function(call["function"])}
        for call in message.get("tool_calls") or ()
    ]
    return {
        "content": message["content"] or "",
        "reasoning": message["reasoning"] or "",
        "calls": calls,
        "finish_reason": choice["finish_reason"],
        "usage": [response["usage"][name] for name in _COUNTS],
    }


def streamed(chunks: Iterable[Json]) -> Json:
    """Stream chunks, joined as clients do it. One choice, whose calls are in the order of their index."""
    stream = join(chunks)
    choice = stream.choices.get(0, Choice())
    calls = [{**asdict(call), "id": call.id and _shape(call.id)} for _, call in sorted(choice.calls.items())]
    return {
        "content": choice.content or "",
        "reasoning": choice.reasoning or "",
        "calls": calls,
        "finish_reason": choice.finish_reason,
        "usage": stream.usage and [stream.usage[name] for name in _COUNTS],
    }


def digest(joined: Json) -> str:
    """48 bits of a joined answer, in hexadecimal."""
    return hashlib.sha256(json.dumps(joined, sort_keys=True).encode()).hexdigest()[:12]


def kinds(one_shot: Json, stream: Json) -> list[str]:
    """How a joined stream differs from the one-shot answer, in words, sorted; nothing when they are equal."""
    if one_shot == stream:
        return []
    if REFUSED in (one_shot, stream):
        return ["stream refused" if stream == REFUSED else "one-shot refused"]
    found = {kind for name in ("content", "reasoning") if (kind := _text_kind(name, one_shot[name], stream[name]))}
    for left, right in zip_longest(one_shot["calls"], stream["calls"]):
        if left is None or right is None:
            found.add("call lost" if right is None else "call only streamed")
            continue
        found |= {f"call {name}" for name in ("id", "type", "name") if left[name] != right[name]}
        if left["arguments"] != right["arguments"]:
            found.add(f"arguments: {_argument_kind(left['arguments'], right['arguments'])}")
    found |= {name for name in ("finish_reason", "usage") if one_shot[name] != stream[name]}
    return sorted(found)


def _shape(call_id: str) -> str:
    for pattern in _RANDOM_IDS:
        call_id = pattern.sub("*", call_id)
    return call_id


def _function(function: Json) -> Json:
    return {"name": function.get("name"), "arguments": function.get("arguments")}


def _text_kind(name: str, one_shot: str, stream: str) -> str | None:
    if one_shot == stream:
        return None
    if one_shot.split() == stream.split() or "".join(one_shot.split()) == "".join(stream.split()):
        return f"{name}: white space"
    if not stream.strip():
        return f"{name}: lost"
    if not one_shot.strip():
        return f"{name}: only streamed"
    if stream.strip() in one_shot:
        return f"{name}: less streamed"
    if one_shot.strip() in stream:
        return f"{name}: more streamed"
    return f"{name}: other text"


def _argument_kind(one_shot: str, stream: str) -> str:
    left, right = _value(one_shot), _value(stream)
    if left is not None and left == right:
        return "spelling"
    if right is None and left is not None:
        return "cut" if one_shot.startswith(stream) or not stream else "not JSON when streamed"
    if left is None and right is not None:
        return "not JSON one-shot"
    return "other value"


def _value(text: str) -> Any:
    """The JSON value with its types told apart (1 and 1.0 and true differ); None when it is none."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return None
