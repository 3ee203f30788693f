"""How much memory do the servers take, and how long until they are ready: ours, vLLM's Python server, ``vllm-rs``?

One model folder (Qwen3), one after the other. Ready and idle are at the first
answer to ``/health``; ours has not read ``tokenizer.json`` then and does so for
the first chat, which is therefore timed too. 60 different chats of 815 tokens
go through ``/render``, then a stream of 400 chunks through ``/derender`` with the hermes and qwen3
parsers, which ``vllm-rs`` does not serve. Peaks are the processes' high-water
marks, children included.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from benchmarks.harness import peers
from benchmarks.harness.chats import chat
from benchmarks.harness.setups import PATH_CHAT, PATH_RENDER, model_folder
from benchmarks.harness.streams import SETUPS, chunk_bodies, flags, output
from core.bundle.folder import FolderFiles
from core.tokenizer import load_tokenizer

CHATS = 60
CHUNKS = 400
# Characters of prose in 815 tokens.
CHARACTERS = 3_400


def run() -> list[dict[str, Any]]:
    """One row for each server that is installed."""
    setup = SETUPS[0]
    folder = model_folder(setup.model)
    servers: list[AbstractContextManager[peers.Peer | None]] = [
        peers.ours(folder, flags(setup)),
        peers.vllm(folder, flags(setup)),
        peers.vllm_rs(folder),
    ]
    tokenizer = load_tokenizer(FolderFiles(folder))
    prompt = tokenizer.encode(setup.prompt, add_special_tokens=False)
    ids = output(setup, tokenizer, CHUNKS)[:CHUNKS]
    rows = []
    for server in servers:
        with server as peer:
            if peer is None:
                continue
            idle, _ = peers.memory_mb(peer.pid)
            row: dict[str, Any] = {"server": peer.name, "ready_s": peer.seconds, "idle_mb": idle}
            render = peers.Connection(peer, PATH_RENDER)
            row["first_render_s"], _ = render.post(chat(CHARACTERS, 0))
            for number in range(1, CHATS):
                render.post(chat(CHARACTERS, number))
            row["after_render_mb"], row["peak_render_mb"] = peers.memory_mb(peer.pid)
            row |= {"after_stream_mb": "", "peak_stream_mb": ""}
            if peer.name != peers.VLLM_RS:
                derender, state = peers.Connection(peer, PATH_CHAT), None
                for body in chunk_bodies(prompt, ids, carry=False):
                    _, answer = derender.post({**body, "stream_state": state})
                    state = answer["stream_state"]
                row["after_stream_mb"], row["peak_stream_mb"] = peers.memory_mb(peer.pid)
            rows.append(row)
    return rows
