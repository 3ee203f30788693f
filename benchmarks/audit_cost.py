"""What does the audit of answers add to a chunk and to a one-shot answer?

Processor instructions, counted by callgrind (the package valgrind), so that
nothing else on the machine counts: the handler is called as Lambda calls it,
with ``--audit metrics`` and ``--audit off`` in turn, in one process. A mark
between two turns is a function of the C library that nothing else calls, at
which callgrind writes down what it counted since the last.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from tokenizers import Tokenizer

from benchmarks.harness.setups import (
    PATH_CHAT,
    QWEN_TOOL_CHAT,
    ROOT,
    Handler,
    gateway_event,
    lambda_handler,
    model_folder,
    tool_call_output,
)
from benchmarks.harness.streams import REQUEST_ID, TOOL
from core.parsing import chat_parser
from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.settings import Settings

TOKENS = 1_400
_CHUNKS = 20
_ROUNDS = 2
_AUDITS = ("off", "metrics")
# Within srand48, by which Python marks the place: callgrind does not see what ctypes calls, only what that calls.
_MARK = "srand48_r"
_REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
Json = dict[str, Any]


def run() -> list[Json]:
    """A row for each kind of call: thousands of instructions without the audit and with it, the best of some rounds.

    Raises:
        RuntimeError: valgrind is not installed, or a call was refused.
    """
    if shutil.which("valgrind") is None:
        raise RuntimeError("valgrind is not installed: it counts the instructions")
    with TemporaryDirectory() as folder:
        counted = _counted(Path(folder))
    rows = []
    for call in dict.fromkeys(call for call, _ in counted):
        without, audited = (min(counted[call, audit]) / 1e3 for audit in _AUDITS)
        rows.append({"call": call, "off_k": without, "audited_k": audited, "added": audited / without - 1})
    return rows


def _counted(folder: Path) -> dict[tuple[str, str], list[float]]:
    """The instructions of a call in each round, by the kind of call and the audit."""
    out = folder / "callgrind"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", f"--dump-before={_MARK}", "-q"]
    done = subprocess.run(
        [*command, sys.executable, "-m", "benchmarks.audit_cost", "--child"],
        cwd=ROOT, env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    counted: dict[tuple[str, str], list[float]] = {}
    # The part with number 1 ended at the first mark: each turn is in that which the mark behind it ended.
    for number, (call, audit, calls) in enumerate(json.loads(done.stdout), 2):
        found = _TOTAL.search(Path(f"{out}.{number}").read_text(encoding="utf-8"))
        assert found is not None
        counted.setdefault((call, audit), []).append(int(found[1]) / calls)
    return counted


def _child() -> None:
    """Make all calls, with marks between them, and print what was called between which."""
    mark = ctypes.CDLL(None).srand48
    turns = [*_turns("no parser", {}), *_turns("parser kept", QWEN_TOOL_CHAT)]
    chat_parser._WAITING_BYTES = 0  # as where another process took the chunk before
    turns += _turns("parser restored", QWEN_TOOL_CHAT)
    for _, _, handler, events in turns:
        _call(handler, events)
    gc.collect()
    gc.freeze()
    gc.disable()  # what a collection costs would fall upon whoever it meets
    made = []
    mark(0)
    for _ in range(_ROUNDS):
        for call, audit, handler, events in turns:
            _call(handler, events)
            mark(0)
            made.append((call, audit, len(events)))
    print(json.dumps(made))


def _call(handler: Handler, events: Sequence[Json]) -> None:
    for event in events:
        _answer(handler, event)


def _answer(handler: Handler, event: Json) -> str:
    answer = handler(event, None)
    if answer["statusCode"] != 200:
        raise RuntimeError(answer["body"][:400])
    body: str = answer["body"]
    return body


def _turns(name: str, parsers: Json) -> list[tuple[str, str, Handler, list[Json]]]:
    """Name, audit, handler and events of a deployment's calls."""
    folder = model_folder("qwen3")
    ids = tool_call_output(Tokenizer.from_file(str(folder / "tokenizer.json")), TOKENS)
    turns = []
    for audit in _AUDITS:
        settings = Settings(model=str(folder), served_model_name=("m",), audit=audit, **parsers)
        handler = lambda_handler(create_app(settings, DERENDER))
        turns.append((f"one-shot answer, {name}", audit, handler, [_event(generate_response=_engine(ids, "stop"))]))
        turns.append((f"chunk of reasoning, {name}", audit, handler, _chunks(handler, ids[: TOKENS // 4], None)))
        turns.append((f"chunk of a call, {name}", audit, handler, _chunks(handler, ids, "stop")))
    return turns


def _chunks(handler: Handler, ids: Sequence[int], finish_reason: str | None) -> list[Json]:
    """The last chunks of a stream, of one token each, with the states that they follow on: all before came in one."""
    begun = len(ids) - _CHUNKS
    parts = [ids[:begun], *([token_id] for token_id in ids[begun:])]
    state, events = None, []
    for number, part in enumerate(parts):
        chunk = _engine(part, finish_reason if number == _CHUNKS else None)
        event = _event(stream=True, generate_chunk=chunk, stream_state=state)
        state = orjson.loads(_answer(handler, event))["stream_state"]
        events.append(event)
    return events[1:]


def _event(**fields: Any) -> Json:
    return gateway_event(PATH_CHAT, json.dumps({"prompt_token_ids": [9], "chat_request": _REQUEST, **fields}))


def _engine(ids: Sequence[int], finish_reason: str | None) -> Json:
    return {"request_id": REQUEST_ID, "choices": [{"index": 0, "token_ids": ids, "finish_reason": finish_reason}]}


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        _child()
    else:
        for row in run():
            print(f"{row['off_k']:8,.0f} {row['audited_k']:8,.0f} {row['added']:6.2%}  {row['call']}", flush=True)
