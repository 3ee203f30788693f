"""Whether work and memory grow with what is sent, and not faster: every kind of request at n, 2n and 4n.

Work is the CPU time of this process, which other processes take no part of; the smallest of several tries
counts. Memory is what Python holds at its peak, counted in bytes, the same in every run. An exponent above `MOST` is a
fault: 1 is linear, 2 is square. So are more bytes for each byte of a body than `BYTES` has.
"""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.deployment import Deployment, Fault, Request, Tally
from tests.golden.corpus import Server

MOST = 1.3
# What takes less is mostly the same for every size.
LEAST_SECONDS = 0.05
# Bytes at the peak of a whole request, its answer included, that each further byte of its body adds; docs/security.md
# has the same table, and what bounds each. The kinds of a parser have one number each.
BYTES = {
    "unfinished bytes": 42,
    "ids outside the vocabulary": 20,
    "spaces": 34,
    "stop strings": 34,
    "log probabilities": 25,
    "choices": 28,
    "gathered chunks": 32,
    "text": 48,
    "digits": 55,
    "messages": 110,
    "tools": 85,
    "prompts": 550,
    "ids": 42,
    "brackets": 22,
    "whole": 45,
    "in chunks": 45,
}
_SIZES = (2048, 4096, 8192)
_TRIES = 6
_LARGEST = 2**17

# vLLM's own parsers that read all their text again, by what they were found with: `parser_budget` and `work_deadline` end
# them. Another one that grows so is a fault here, and so is one of them that grows with more than the third power or
# that the budget does not end.
SUPERLINEAR = (
    *("llama3_json", "llama4_json", "internlm", "jamba", "xlam", "pythonic", "llama4_pythonic", "lfm2", "granite"),
    *("olmo3", "ling3", "minimax_m2", "seed_oss"),
)
_MOST_KNOWN = 3.0
# vLLM's newer parsers and most reasoning parsers share an engine that cuts a whole output anew at each mark: the square
# of marks, 0.6 s of CPU for 16,384 of them. `max_model_len` bounds it, and `work_deadline` ends it.
_MOST_WHOLE = 2.3
_BUDGET = 2.0

Body = Callable[[int], tuple[str, Any]]
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
RENDER, DERENDER = "/v1/chat/completions/render", "/v1/chat/completions/derender"


def exponent(cost: Callable[[int], float], start: int, least: float = LEAST_SECONDS) -> float:
    """How `cost` grows from the first size on at which it is worth measuring, over n, 2n and 4n; 0 where it never is.

    The smallest of what was measured for each size counts: a busy machine adds to some, and takes from none.
    """
    size = start
    # A first run warms up: the second counts.
    while cost(size) < least or cost(size) < least:
        size *= 2
        if size > _LARGEST:
            return 0.0
    sizes = (size, 2 * size, 4 * size)
    smallest = [math.inf] * len(sizes)
    found = math.inf
    for _ in range(_TRIES):
        for place, one in enumerate(sizes):
            # What is refused costs nothing.
            smallest[place] = min(smallest[place], max(cost(one), 1e-9))
        first, second, last = smallest
        found = max(math.log(last / first, 4), math.log(last / second, 2))
        if found <= MOST:
            break
    return found


def plain_bodies() -> dict[str, Body]:
    """Requests that no parser of vLLM's reads."""

    def one_shot(ids: Callable[[int], list[int]], **request: Any) -> Body:
        def make(size: int) -> tuple[str, Any]:
            choice = {"index": 0, "token_ids": ids(size), "finish_reason": "stop"}
            answer = {"request_id": "r", "choices": [choice]}
            return DERENDER, {"generate_response": answer, "chat_request": {**CHAT, **request}}

        return make

    def logprobs(size: int) -> tuple[str, Any]:
        positions = [{"token_id": 1, "logprob": -1.0, "top_logprobs": []}] * size
        choice = {"index": 0, "token_ids": [1] * size, "logprobs": {"content": positions}, "finish_reason": "stop"}
        return DERENDER, {
            "generate_response": {"request_id": "r", "choices": [choice]},
            "chat_request": {**CHAT, "logprobs": True},
        }

    def choices(size: int) -> tuple[str, Any]:
        found = [{"index": index, "token_ids": [1], "finish_reason": "stop"} for index in range(size)]
        return DERENDER, {"generate_response": {"request_id": "r", "choices": found}, "chat_request": CHAT}

    def chunks(size: int) -> tuple[str, Any]:
        sent = [{"request_id": "r", "choices": [{"index": 0, "token_ids": [94] * 8}]}] * max(size // 8, 1)
        return DERENDER, {"stream": True, "generate_chunks": sent[:4096], "chat_request": {**CHAT, "stream": True}}

    def stops(size: int) -> tuple[str, Any]:
        strings = [f"{number:06}" for number in range(min(size // 40, 1024))]
        return one_shot(lambda count: [220] * count, stop=strings)(size)

    return {
        "unfinished bytes": one_shot(lambda size: [94] * size),
        "ids outside the vocabulary": one_shot(lambda size: [2_000_000] * size),
        "spaces": one_shot(lambda size: [220] * size),
        "stop strings": stops,
        "log probabilities": logprobs,
        "choices": choices,
        "gathered chunks": chunks,
        "text": lambda size: (RENDER, {"messages": [{"role": "user", "content": "x " * size}]}),
        "digits": lambda size: ("/tokenize", {"prompt": "7" * size}),
        "messages": lambda size: (RENDER, {"messages": [{"role": "user", "content": "x"}] * (size // 16)}),
        "tools": lambda size: (RENDER, {**CHAT, "tool_choice": "none", "tools": [TOOL] * (size // 16)}),
        "prompts": lambda size: ("/v1/completions/render", {"prompt": ["x"] * (size // 16)}),
        "ids": lambda size: ("/detokenize", {"tokens": [94] * size}),
        "brackets": lambda size: (RENDER, {**CHAT, "metadata": {"x": [[]] * size}}),
    }


def marked_bodies(marks: list[str], encode: Callable[[str], list[int]]) -> dict[str, Body]:
    """Outputs that say one mark again and again, whole and in gathered chunks."""

    def once(mark: str) -> Body:
        ids = encode(mark)

        def make(size: int) -> tuple[str, Any]:
            choice = {"index": 0, "token_ids": (ids * size)[:size], "finish_reason": "stop"}
            answer = {"request_id": "r", "choices": [choice]}
            return DERENDER, {"generate_response": answer, "chat_request": {**CHAT, "tools": [TOOL]}}

        return make

    def gathered(mark: str) -> Body:
        ids = encode(mark)

        def make(size: int) -> tuple[str, Any]:
            sent = [{"request_id": "r", "choices": [{"index": 0, "token_ids": [one]}]} for one in (ids * size)[:size]]
            request = {**CHAT, "stream": True, "tools": [TOOL]}
            body = {"stream": True, "generate_chunks": sent[:4096], "prompt_token_ids": [1], "chat_request": request}
            return DERENDER, body

        return make

    bodies = {f"{mark!r} whole": once(mark) for mark in marks}
    return bodies | {f"{mark!r} in chunks": gathered(mark) for mark in marks}


MARKS = [
    "{",
    "[",
    '{"',
    "<",
    "\\",
    "<tool_call>",
    "<think>",
    "</think>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<seed:think>",
]


def attack(server: Server, models_dir: Path, tally: Tally) -> dict[str, float]:
    """The growth of one configuration's requests: those of its parser where it has one."""
    parser = server.get("tool_call_parser")
    if parser is None:
        return run(server, models_dir, plain_bodies(), tally)
    known = parser in SUPERLINEAR
    server = {**server, "parser_budget": _BUDGET} if known else server
    probe = Deployment(server, models_dir, Tally())
    try:
        tokenizer = probe.app.state.loader.get().tokenizer
    finally:
        probe.close()
    bodies = marked_bodies(MARKS, lambda mark: list(tokenizer.encode(mark)))

    def most(kind: str) -> float:
        return _MOST_KNOWN if known else _MOST_WHOLE if kind.endswith(" whole") else MOST

    return run(server, models_dir, bodies, tally, most=most)


def most_bytes(kind: str) -> int:
    """The bytes of `BYTES` for a kind, which may be named after a mark."""
    return next(most for name, most in BYTES.items() if kind == name or kind.endswith(f" {name}"))


def excess(kind: str, sizes: Sequence[int], peaks: Sequence[int]) -> str:
    """What is wrong with the `peaks` of memory over bodies of these `sizes`, all in bytes; empty where nothing is."""
    each = (peaks[-1] - peaks[0]) / (sizes[-1] - sizes[0])
    if each > most_bytes(kind):
        return f"{each:.1f} bytes of memory for each byte of its body, more than {most_bytes(kind)}"
    grows = math.log(max(peaks[-1], 1) / max(peaks[0], 1)) / math.log(sizes[-1] / sizes[0])
    return f"memory grows with the power {grows:.2f} of what is sent" if grows > MOST else ""


def run(
    server: Server,
    models_dir: Path,
    bodies: dict[str, Body],
    tally: Tally,
    start: int = 64,
    most: Callable[[str], float] = lambda kind: MOST,
) -> dict[str, float]:
    """The exponent of each kind's work; those above its `most` are faults, and so is too much memory."""
    # A text that is encoded again is not, where its ids are kept.
    deployment = Deployment({"encode_cache_bytes": 0, **server}, models_dir, tally)
    found = {}
    try:
        for name, body in bodies.items():
            sent: list[Request] = []

            def cost(size: int, name: str = name, body: Body = body, sent: list[Request] = sent) -> float:
                path, content = body(size)
                headers = {"content-type": "application/json"}
                sent.append(Request(f"growth: {name}", "POST", path, json.dumps(content).encode(), headers))
                return deployment.seconds(sent[-1])

            found[name] = exponent(cost, start)
            if found[name] > most(name):
                why = f"work grows with the power {found[name]:.2f} of what is sent"
                tally.faults.append(Fault(why, server, sent[-1]))
            sized: list[int] = []
            peaks: list[int] = []
            for size in _SIZES:
                cost(size)
                sized.append(len(sent[-1].body))
                peaks.append(deployment.peak(sent[-1]))
            if why := excess(name, sized, peaks):
                tally.faults.append(Fault(f"{name}: {why}", server, sent[-1]))
    finally:
        deployment.close()
    return found
