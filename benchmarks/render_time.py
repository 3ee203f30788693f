"""What does a render cost: ours over HTTP and as a handler call, vLLM's Python server, ``vllm-rs``?

The servers take turns, twenty requests each, so that all see the same machine;
medians are reported, and the token ids of all must be equal. "same" sends one
chat again and again, which the tokenizers' caches answer in part; "fresh" sends
a chat of other words each time. The floor of the handler is what nobody can do
without: parse the body, one encode of the prompt by ``tokenizers``, without
offsets, and write the answer. ``bare_ms`` is an empty Starlette application on
uvicorn: what HTTP in Python costs with nothing to do.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson
from tokenizers import Tokenizer

from benchmarks.harness import peers
from benchmarks.harness.chats import characters_for, chat
from benchmarks.harness.setups import PATH_RENDER, Handler, gateway_event, model_folder, render_handler

# Tokens of a chat, and the requests of each kind.
SIZES = {"short": (24, 300), "815 tokens": (815, 200), "long": (8_000, 40)}
# So many requests go to one server before the next one has its turn: its caches are warm, and all see one machine.
BLOCK = 20
Json = dict[str, Any]


def answer_of(handler: Handler, body: bytes) -> Json:
    """The answer of a handler call.

    Raises:
        RuntimeError: it is an error.
    """
    answer = handler(gateway_event(PATH_RENDER, body.decode()), None)
    if answer["statusCode"] != 200:
        raise RuntimeError(answer["body"][:400])
    rendered: Json = json.loads(answer["body"])
    return rendered


def run() -> list[Json]:
    """One row for each size of a chat, sent again and fresh."""
    folder = model_folder("qwen3")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    handler = render_handler(folder)
    rows = []
    with ExitStack() as stack:
        bare = stack.enter_context(_bare())
        servers = [stack.enter_context(peers.ours(folder))]
        for started in (peers.vllm(folder), peers.vllm_rs(folder)):
            peer = stack.enter_context(started)
            servers += [peer] if peer else []
        for name, (tokens, requests) in SIZES.items():
            for texts, different in (("same", 1), ("fresh", requests)):
                size = characters_for(tokens, lambda size: _tokens(handler, size, min(different, 20)))  # noqa: B023
                bodies = [orjson.dumps(chat(size, number)) for number in range(different)]
                row = _compare(handler, tokenizer, servers, bare, bodies * (requests // different))
                rows.append({"chat": name, "texts": texts, **row})
    return rows


def _tokens(handler: Handler, characters: int, chats: int) -> float:
    """The median tokens of the first chats of so many characters."""
    answers = [answer_of(handler, orjson.dumps(chat(characters, number))) for number in range(chats)]
    return statistics.median(len(answer["token_ids"]) for answer in answers)


def _compare(
    handler: Handler, tokenizer: Tokenizer, servers: Sequence[peers.Peer], bare: peers.Peer, bodies: Sequence[bytes]
) -> Json:
    connections = {peer.name: peers.Connection(peer, PATH_RENDER) for peer in (*servers, bare)}
    rendered = [answer_of(handler, body) for body in bodies]
    prompts = [tokenizer.decode(answer["token_ids"], skip_special_tokens=False) for answer in rendered]
    events = [gateway_event(PATH_RENDER, body.decode()) for body in bodies]
    times: dict[str, list[float]] = {name: [] for name in (*connections, "handler", "floor", "encode")}
    same = [True] * len(bodies)
    for first in range(0, len(bodies), BLOCK):
        block = range(first, min(first + BLOCK, len(bodies)))
        for at in block:
            began = time.perf_counter()
            handler(events[at], None)
            times["handler"].append(time.perf_counter() - began)
        for at in block:
            began = time.perf_counter()
            orjson.loads(bodies[at])
            encoding = time.perf_counter()
            ids = tokenizer.encode_batch_fast([prompts[at]], add_special_tokens=False)[0].ids
            encoded = time.perf_counter()
            orjson.dumps({**rendered[at], "token_ids": ids})
            times["floor"].append(time.perf_counter() - began)
            times["encode"].append(encoded - encoding)
            same[at] = ids == rendered[at]["token_ids"]
        for name, connection in connections.items():
            for at in block:
                took, text = connection.post_raw(bodies[at])
                times[name].append(took)
                same[at] &= name == bare.name or orjson.loads(text)["token_ids"] == rendered[at]["token_ids"]
    equal = sum(same)
    if equal != len(bodies):
        raise RuntimeError(f"{len(bodies) - equal} of {len(bodies)} chats have other token ids at one of the servers")
    ms = {name: statistics.median(took) * 1e3 for name, took in times.items()}
    row = {
        "tokens": int(statistics.median(len(answer["token_ids"]) for answer in rendered)),
        "requests": len(bodies),
        "equal": equal,
        "ours_ms": ms[peers.OURS],
        "bare_ms": ms[bare.name],
        "handler_ms": ms["handler"],
        "floor_ms": ms["floor"],
        "encode_ms": ms["encode"],
        "to_floor": ms["handler"] / ms["floor"],
    }
    for name, column in ((peers.VLLM, "vllm"), (peers.VLLM_RS, "rs")):
        if name in ms:
            row |= {f"{column}_ms": ms[name], f"{column}_ratio": ms[name] / ms[peers.OURS]}
    return row


# -- a server with nothing to do ------------------------------------------------------------------


@contextmanager
def _bare() -> Iterator[peers.Peer]:
    with peers.running("bare", [sys.executable, "-m", "benchmarks.render_time"]) as peer:
        yield peer


def _serve_bare() -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def read(request: Request) -> Response:
        return Response(b'{"bytes":%d}' % len(await request.body()), media_type="application/json")

    app = Starlette(routes=[Route("/health", read), Route(PATH_RENDER, read, methods=["POST"])])
    port = sys.argv[sys.argv.index("--port") + 1]
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="critical", lifespan="off")


if __name__ == "__main__":
    _serve_bare()
