"""A server under everything at once, for minutes: `python -m tests.soak --seconds 600`, or `make soak`.

Many relayed streams, derender and render traffic, attacks in between, one of two engines ending at random, a restart in the
middle of it. In its first life nobody reads the server's log for a tenth of the time, in the second its disk is full. Every answer is compared with
the right one. The exit status is 1 after a wrong answer, a 504, a 5xx that nothing explains, a process that is left over, or
where memory or descriptors grow.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.attack_pauses import attacks
from infra.models import build
from tests.support.processes import engine
from tests.support.servers import answers, free_port
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
MODEL, WORDS = "llama3", 20
RENDER, DERENDER, RELAY = "/v1/chat/completions/render", "/v1/chat/completions/derender", "/v1/chat/completions"
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT = "word " * WORDS
# What the server may gain between the first and the last third of its life.
MOST_GROWTH = 64 * 2**20
_HONEST = {200}
_ATTACKED = {200, 400, 413, 503}


@dataclass
class Tally:
    """What became of the requests of each kind, and what was wrong."""

    done: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    memory: list[tuple[float, int, int]] = field(default_factory=list)

    def fault(self, what: str) -> None:
        self.faults.append(what)
        print(f"FAULT {what[:300]}", flush=True)


class Machine:
    """The two engines and the server, and how they are ended and started again."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.model = ROOT / "build" / "models" / MODEL
        self.script = folder / "script.json"
        self.script.write_text(json.dumps({"rules": [{"match": "", "answer": TEXT}]}))
        self.ports = [free_port(), free_port()]
        self.port = free_port()
        self.engines = [self.engine(port) for port in self.ports]
        self.url = f"http://127.0.0.1:{self.port}"
        self.restarting = False
        self.engine_ended = 0.0
        self.server: subprocess.Popen[bytes] | None = None
        stack.callback(self.close)

    def engine(self, port: int) -> subprocess.Popen[bytes]:
        options = ("--script", str(self.script), "--tokens-only", "--delay-ms", "2000", "--served-model-name", "m")
        command = [sys.executable, *engine(self.model, *options, "--port", str(port))]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert wait_for(lambda: answers(port))
        return process

    def start(self, stdout: Any) -> None:
        """Start the server, its log going to ``stdout``."""
        command = [sys.executable, "-m", "handlers.commands", "serve", str(self.model), "--served-model-name", "m"]
        command += ["--tool-call-parser", "llama3_json", "--enable-auto-tool-choice", "--request-log", "all"]
        command += ["--engine-url", *(f"http://127.0.0.1:{port}" for port in self.ports), "--port", str(self.port)]
        # A collector that is behind: what a client waits for must not wait for it.
        self.server = subprocess.Popen(command, cwd=ROOT, stdout=stdout, stderr=subprocess.DEVNULL)
        assert wait_for(lambda: answers(self.port))

    def end(self) -> set[int]:
        """End the server as a supervisor does; the processes that are left over."""
        assert self.server is not None
        found = family(self.server.pid)
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(120)
        wait_for(lambda: not any(Path(f"/proc/{one}").exists() for one in found))
        return {one for one in found if Path(f"/proc/{one}").exists()}

    def close(self) -> None:
        for process in [*self.engines, *([self.server] if self.server is not None else [])]:
            process.kill()
            process.wait()


def family(pid: int) -> set[int]:
    """A process and all that it started, and those that they have."""
    found = {pid}
    for task in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(task.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found |= family(int(task.parent.name))
    return found


def sizes(pid: int) -> tuple[int, int]:
    """The bytes of memory of a process, and its open descriptors."""
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def streams(machine: Machine, client: httpx.AsyncClient, tally: Tally) -> None:
    """One relayed stream, read to its end and compared."""
    began, text, ended = time.monotonic(), "", False
    async with client.stream("POST", machine.url + RELAY, json={**CHAT, "stream": True, "max_tokens": 100}) as answer:
        if answer.status_code != 200:
            raise Refused(answer.status_code, (await answer.aread()).decode())
        async for line in answer.aiter_lines():
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                ended = True
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise Refused(event["error"]["code"], event["error"]["message"])
            text += "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    if not ended or text.strip() != TEXT.strip():
        if machine.restarting or machine.engine_ended > began:
            tally.done["stream cut"] += 1
        else:
            tally.fault(f"a stream said {text!r}, ended: {ended}")
    else:
        tally.done["stream"] += 1


class Refused(Exception):
    """An answer other than 200, or an error in a stream."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


def whole(path: str, body: dict[str, Any], name: str) -> Callable[..., Awaitable[None]]:
    """A request with an answer in one piece, which is always the same."""
    first: list[str] = []

    async def send(machine: Machine, client: httpx.AsyncClient, tally: Tally) -> None:
        answer = await client.post(machine.url + path, json=body)
        if answer.status_code != 200:
            raise Refused(answer.status_code, answer.text)
        said = {key: value for key, value in answer.json().items() if key not in ("id", "created", "request_id")}
        text = json.dumps(said, sort_keys=True)
        first.append(text) if not first else None
        if text != first[0]:
            tally.fault(f"{name} said {text[:200]}")
        tally.done[name] += 1

    return send


async def again(
    send: Callable[..., Awaitable[None]], machine: Machine, client: httpx.AsyncClient, tally: Tally, name: str,
    until: float, pause: float,
) -> None:  # fmt: skip
    """One kind of request again and again."""
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            await send(machine, client, tally)
        except Refused as exc:
            engine_gone = name == "stream" and exc.status in (502, 503) and machine.engine_ended > began - 60
            if exc.status == 503 or machine.restarting or engine_gone:
                tally.done[f"{name} {exc.status}"] += 1
            else:
                tally.fault(f"{name}: {exc}")
        except httpx.HTTPError as exc:
            if machine.restarting:
                tally.done[f"{name} cut by the restart"] += 1
            else:
                tally.fault(f"{name}: {type(exc).__name__} {exc}")
            await asyncio.sleep(1)
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))


async def attack(machine: Machine, client: httpx.AsyncClient, tally: Tally, until: float, pause: float) -> None:
    """The attacks of ``benchmarks/attack_pauses.py``, one at a time."""
    kinds = [one for one in attacks(machine.model) if one[1]]
    while time.monotonic() < until:
        for name, path, body, headers in kinds:
            if time.monotonic() > until:
                return
            try:
                headers = {"content-type": "application/json", **headers}
                answer = await client.post(machine.url + path, content=body, headers=headers)
                if answer.status_code in _ATTACKED:
                    tally.done[f"attack {answer.status_code}"] += 1
                elif not machine.restarting:
                    tally.fault(f"attack {name}: {answer.status_code} {answer.text[:200]}")
            except httpx.HTTPError as exc:
                if not machine.restarting:
                    tally.fault(f"attack {name}: {type(exc).__name__}")
            await asyncio.sleep(pause)


async def engines_end(machine: Machine, until: float) -> None:
    """One of the engines ends now and then, and comes back."""
    while time.monotonic() < until - 60:
        await asyncio.sleep(random.uniform(40, 80))
        number = random.randrange(2)
        machine.engine_ended = time.monotonic()
        machine.engines[number].kill()
        machine.engines[number].wait()
        await asyncio.sleep(5)
        machine.engines[number] = await asyncio.to_thread(machine.engine, machine.ports[number])
        machine.engine_ended = time.monotonic()


async def drain(stdout: Any, silent: tuple[float, float]) -> None:
    """A collector of the log that reads nothing for a while."""
    os.set_blocking(stdout.fileno(), False)
    while True:
        now = time.monotonic()
        if not silent[0] < now < silent[1]:
            while stdout.read(65536):
                pass
        await asyncio.sleep(0.2)


async def watch(machine: Machine, tally: Tally) -> None:
    """The server's memory and descriptors, and whether it answers health checks."""
    while True:
        await asyncio.sleep(5)
        if machine.server is not None and machine.server.poll() is None and not machine.restarting:
            tally.memory.append((time.monotonic(), *sizes(machine.server.pid)))


async def restart(machine: Machine, tally: Tally, seconds: float, disk: Any) -> None:
    """The server ends under traffic after some ``seconds``, and is started again, its log on ``disk``."""
    await asyncio.sleep(seconds)
    machine.restarting = True
    if left := await asyncio.to_thread(machine.end):
        tally.fault(f"processes are left over: {left}")
    flat(tally)
    tally.memory.clear()
    await asyncio.to_thread(machine.start, disk)
    await asyncio.sleep(10)  # what was under way has noticed
    machine.restarting = False


async def life(machine: Machine, tally: Tally, seconds: float, count: int, disk: Any) -> None:
    """All traffic for some ``seconds``."""
    assert machine.server is not None
    began = time.monotonic()
    until = began + seconds
    choice = {"index": 0, "token_ids": [9906, 1917], "finish_reason": "stop"}
    answer = {"generate_response": {"request_id": "r", "choices": [choice]}, "chat_request": CHAT}
    whole_ones = {
        "derender": (DERENDER, answer),
        "tokenize": ("/tokenize", {"prompt": "hi " * 500}),
        "render": (RENDER, CHAT),
    }
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    async with httpx.AsyncClient(timeout=300, limits=limits) as client, httpx.AsyncClient(timeout=300) as attacker:
        tasks = [again(streams, machine, client, tally, "stream", until, 2) for _ in range(count)]
        for name, (path, body) in whole_ones.items():
            tasks.append(again(whole(path, body, name), machine, client, tally, name, until, 0.5))
        tasks += [attack(machine, attacker, tally, until, 3), engines_end(machine, until)]
        tasks += [restart(machine, tally, seconds / 2, disk)]
        silent = (began + seconds / 5, began + seconds * 3 / 10)
        beside = [
            asyncio.ensure_future(watch(machine, tally)),
            asyncio.ensure_future(drain(machine.server.stdout, silent)),
        ]
        await asyncio.gather(*tasks)
        for task in beside:
            task.cancel()


def flat(tally: Tally) -> None:
    """See that nothing grew in a life of the server: its last third against the second."""
    third = len(tally.memory) // 3
    if third < 2:
        print("too short to see whether memory is flat")
        return
    before, after = tally.memory[third : 2 * third], tally.memory[-third:]
    memory = max(one[1] for one in after) - max(one[1] for one in before)
    files = min(one[2] for one in after) - max(one[2] for one in before)
    told = f"memory {max(one[1] for one in before) / 1e6:.0f}, then {max(one[1] for one in after) / 1e6:.0f} MB; "
    told += f"descriptors {max(one[2] for one in before)}, then {max(one[2] for one in after)}"
    print(told, flush=True)
    if memory > MOST_GROWTH or files > 0:
        tally.fault(told)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    random.seed(options.seed)
    build(MODEL, ROOT / "build" / "models")
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack, Path("/dev/full").open("wb") as disk:
        machine = Machine(Path(folder), stack)
        machine.start(subprocess.PIPE)
        asyncio.run(life(machine, tally, options.seconds, options.streams, disk))
        flat(tally)
        if left := machine.end():
            tally.fault(f"processes are left over: {left}")
    print("\n".join(f"| {what} | {count:,} |" for what, count in sorted(tally.done.items())))
    print(f"{len(tally.faults)} faults", flush=True)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
