"""What does a stream through a parser cost, one token a chunk: time per chunk, total, and bytes each way?

Over HTTP on loopback, ours (``derender serve``) against the real ``vllm launch
render`` where vLLM is installed (``benchmarks.harness.peers``), both started here and
measured in one run; ours alone otherwise. vLLM replays, so a whole stream takes
it minutes: where that would be too long only its last chunk is timed, with the
state it would have made, its total is left out, and its bytes are added up from
the size of that state at each chunk.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.harness import peers
from benchmarks.harness.setups import PATH_CHAT, gateway_event, lambda_handler, model_folder
from benchmarks.harness.streams import LENGTHS, SETUPS, Setup, chunk_bodies, flags, output, parsers
from core.bundle.folder import FolderFiles
from core.tokenizer import load_tokenizer
from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.settings import Settings

# vLLM's own total is measured for these lengths and setups; elsewhere only its last chunks.
VLLM_WHOLE = {64: None, 512: None, 1400: ("hermes + qwen3",)}
VLLM_LAST_LIMIT = {"llama3_json": 1400}
LAST = 20
# A curve's points are medians of so many chunks.
WINDOW = 64
TOLD = ("setup", "tokens", "end_ms", "total_s", "vllm_end_ms", "vllm_total_s")
Json = dict[str, Any]


def run() -> list[Json]:
    """One row for each setup and length."""
    rows = []
    for setup in SETUPS:
        folder = model_folder(setup.model)
        tokenizer = load_tokenizer(FolderFiles(folder))
        prompt = tokenizer.encode(setup.prompt, add_special_tokens=False)
        ids = output(setup, tokenizer, max(LENGTHS))
        with peers.ours(folder, flags(setup)) as ours, peers.vllm(folder, flags(setup)) as vllm:
            for length in LENGTHS:
                ids = output(setup, tokenizer, length)[:length]
                row: Json = {"setup": setup.name, "tokens": length}
                row |= _measure(ours, prompt, ids, carry=False)
                carried = _measure(ours, prompt, ids, carry=True)
                row |= {f"carry_{name}": carried[name] for name in ("request_kb", "response_kb")}
                row["cpu_end_ms"] = _handler_cpu(setup, str(folder), prompt, ids)
                row |= _measure_vllm(vllm, setup, prompt, ids, row) if vllm else {}
                rows.append(row)
                told = {name: value for name, value in row.items() if name in TOLD}
                print({k: round(v, 3) if isinstance(v, float) else v for k, v in told.items()}, file=sys.stderr)
    return rows


# -- the streams ----------------------------------------------------------------------------------


def _measure(peer: peers.Peer, prompt: Sequence[int], ids: Sequence[int], carry: bool) -> Json:
    connection = peers.Connection(peer, PATH_CHAT)
    state, times = None, []
    for body in chunk_bodies(prompt, ids, carry):
        took, answer = connection.post({**body, "stream_state": state})
        state = answer["stream_state"]
        times.append(took)
    early = times[44:64]
    return {
        "at_64_ms": median(early) * 1e3,
        "end_ms": median(times[-LAST:]) * 1e3,
        "growth": median(times[-LAST:]) / median(early),
        "total_s": sum(times),
        "request_kb": connection.sent / 1e3,
        "response_kb": connection.received / 1e3,
        "curve": [[at + WINDOW, median(times[at : at + WINDOW]) * 1e3] for at in range(0, len(times), WINDOW)],
    }


def _measure_vllm(peer: peers.Peer, setup: Setup, prompt: Sequence[int], ids: Sequence[int], ours: Json) -> Json:
    """vLLM's last chunk (and total, where that is bearable) with ours as multiples."""
    whole = VLLM_WHOLE.get(len(ids), ())
    if whole is None or setup.name in whole:
        theirs = _measure(peer, prompt, ids, carry=False)
        sent, received = theirs["request_kb"], theirs["response_kb"]
        return {
            "vllm_end_ms": theirs["end_ms"],
            "vllm_total_s": theirs["total_s"],
            "vllm_request_kb": sent,
            "vllm_response_kb": received,
            "vllm_curve": theirs["curve"],
            "last_ratio": theirs["end_ms"] / ours["end_ms"],
            "total_ratio": theirs["total_s"] / ours["total_s"],
            "bytes_ratio": (sent + received) / (ours["request_kb"] + ours["response_kb"]),
        }
    if len(ids) > VLLM_LAST_LIMIT.get(setup.name, max(LENGTHS)):
        return {}
    connection = peers.Connection(peer, PATH_CHAT)
    bodies = list(chunk_bodies(prompt, ids, carry=False))
    last = {**bodies[-1], "stream_state": _replaying_state({"role_sent": True}, ids[:-1])}
    took, answer = min((connection.post(last) for _ in range(3)), key=lambda posted: posted[0])
    # The answer's bytes without its state, which now has one token more.
    beside = connection.received / 3 - _json_size(answer["stream_state"])
    states = [_json_size(_replaying_state(answer["stream_state"], ids[:number])) for number in range(len(ids) + 1)]
    sent = sum(_json_size({**body, "stream_state": None}) - len("null") for body in bodies) + sum(states[:-1])
    received = sum(states[1:]) + beside * len(ids)
    return {
        "vllm_end_ms": took * 1e3,
        "vllm_request_kb": sent / 1e3,
        "vllm_response_kb": received / 1e3,
        "last_ratio": took * 1e3 / ours["end_ms"],
        "bytes_ratio": (sent + received) / 1e3 / (ours["request_kb"] + ours["response_kb"]),
    }


def _replaying_state(fields: Json, ids: Sequence[int]) -> Json | None:
    """vLLM's stream state after so many chunks of one token, its other fields as given."""
    return {**fields, "output_token_ids": list(ids), "output_chunk_lens": [1] * len(ids)} if ids else None


def _json_size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _handler_cpu(setup: Setup, folder: str, prompt: Sequence[int], ids: Sequence[int]) -> float:
    """Milliseconds of CPU for one chunk at the end of the stream, in process, API Gateway event to response."""
    settings = Settings(model=folder, served_model_name=("m",), **parsers(setup))
    handler = lambda_handler(create_app(settings, DERENDER))
    state, times = None, []
    for body in chunk_bodies(prompt, ids, carry=False):
        event = gateway_event(PATH_CHAT, json.dumps({**body, "stream_state": state}))
        began = time.process_time()
        answer = handler(event, None)
        times.append(time.process_time() - began)
        state = json.loads(answer["body"])["stream_state"]
    return median(times[-LAST:]) * 1e3
